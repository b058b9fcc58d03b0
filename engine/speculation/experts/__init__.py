"""A mixture's experts as trees see them: which ones a drafted token will touch, and which nodes are worth theirs."""
