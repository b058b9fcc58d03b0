"""LM Studio's own API: models with their contexts, and completions with their figures."""
