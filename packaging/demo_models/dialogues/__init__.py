"""Simple dialogues and stories, drawn at random from texts written for this project."""
