"""What networks are called in GGUF files: their weights, and the configuration that metadata gives them."""
