"""Tests of what a person sees of the model library."""
