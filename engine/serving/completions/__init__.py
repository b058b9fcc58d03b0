"""OpenAI's completions of plain texts: what is asked there, and the chunks and the completion that answer it."""
