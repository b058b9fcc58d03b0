"""What families of models need to hold trees: the language model in a wrapper, what layers see, what was verified."""
