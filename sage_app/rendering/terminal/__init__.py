"""Results as text for a terminal, with rich. Nothing here computes; it only displays."""
