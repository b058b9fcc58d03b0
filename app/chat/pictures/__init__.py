"""Pictures of a chat as they are seen: small in their place, and large in a window of their own."""
