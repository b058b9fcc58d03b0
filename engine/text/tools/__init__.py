"""Tools: how templates are given them, and how models write their calls."""
