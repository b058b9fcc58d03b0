"""What a pass over a tree reads, and how it is launched."""
