"""Shows which model and which round the tokens of an answer came from."""
