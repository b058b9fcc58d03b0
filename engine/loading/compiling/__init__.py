"""Compiles loops in several processes at once: what a model needs before it is loaded, or others while nobody asks."""
