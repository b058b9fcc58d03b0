"""Engines elsewhere: their dialects, what they tell, and what goes wrong with them."""
