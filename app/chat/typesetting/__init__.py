"""Formulas and coloured code, drawn by a second process, and the cost of laying out text."""
