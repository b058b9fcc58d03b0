"""Layers on disk: layout, manifest, prepared models, and the checkpoint's own files."""
