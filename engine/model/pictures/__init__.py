"""Pictures: files opened safely, and what a model that reads pictures has in place of their tokens' embeddings."""
