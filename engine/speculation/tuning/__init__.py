"""Decides method, size and depth of trees from what passes cost and give."""
