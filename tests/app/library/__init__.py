"""Tests of the library room."""
