"""Formulas and coloured code, drawn by a second process."""
