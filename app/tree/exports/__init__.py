"""What leaves the tree panel and comes back to it: recordings, pictures, animations, texts."""
