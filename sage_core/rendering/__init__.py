"""Results for people to read: text for a terminal, HTML for notebooks and reports. Nothing here computes."""
