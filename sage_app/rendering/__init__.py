"""Results for display: text for a terminal, HTML for notebooks and reports. Nothing here computes."""
