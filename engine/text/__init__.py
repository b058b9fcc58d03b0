"""Text in and out: tokens, chat templates, and the stream of an answer."""
