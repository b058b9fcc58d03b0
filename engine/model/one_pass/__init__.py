"""A text of any length in one pass over the layers: each runs over all chunks of it while its weights are there."""
