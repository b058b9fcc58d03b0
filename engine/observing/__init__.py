"""What is told of an answer while it is written: its rounds, and the tools that it calls."""
