"""The loops that numba compiles: products of rows with matrices in any layout, and what lies between products."""
