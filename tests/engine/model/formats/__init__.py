"""Tests of the formats of packed weights."""
