"""The score lists that the paper prints in its figures 8 and 9 (of figure 9 the first nine)."""

FIGURE_8 = [
    *(13.79, 13.58, 11.91, 11.55, 10.94, 7.815, 7.665, 5.490, 4.416),
    *(1.304, 0.800, 0.255, 0.198, 0.093, 0.089),
]
FIGURE_9 = [5.080, 3.854, 3.016, 1.734, 1.560, 1.146, 0.842, 0.823, 0.685]
