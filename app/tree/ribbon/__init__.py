"""The rounds of a conversation as columns beside each other: what each gave, and which one is looked at."""
