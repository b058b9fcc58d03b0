"""The live tree: what the draft guessed in the newest round, and what the target made of it."""
