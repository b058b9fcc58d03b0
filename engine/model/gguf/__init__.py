"""GGUF files: their headers read without trusting them, and what they mean in transformers' terms."""
