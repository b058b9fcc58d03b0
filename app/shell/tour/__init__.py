"""Three steps at the first run that point at the real thing."""
