"""OpenAI's chat completions: what is asked there, and the chunks and the completion that answer it."""
