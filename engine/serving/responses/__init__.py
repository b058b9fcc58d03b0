"""OpenAI's Responses API, without a memory: what is asked there, and the typed events and the object that answer it."""
