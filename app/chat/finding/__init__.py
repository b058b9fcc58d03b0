"""Finding words in the conversation that is shown: the bar, the search over its messages, and what it marks."""
