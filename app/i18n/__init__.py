"""The person's language: translation, numbers and times, and sentences of the engine."""
