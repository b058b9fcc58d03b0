"""Bytes to weights: plain, cast, int8 and NF4."""
