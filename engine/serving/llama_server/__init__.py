"""llama-server's own API: what is asked there, and the events and the whole that answer it."""
