"""Chat: the conversation, how it is shown, and how it is answered."""
