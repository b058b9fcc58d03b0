"""Encoders of pictures in GGUF files (llama.cpp's `mmproj`), in transformers' terms."""
