"""Token trees, and what builds, merges and shapes them. Pure."""
