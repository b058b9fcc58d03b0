"""How checkpoints pack their weights: which stored tensors make up a weight, and how they are decoded."""
