"""Prompts that plans learn from, and others of the same kinds that they are measured with."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """Chats of one kind: what is asked before the plan is asked, and what after it."""

    learned: tuple[str, ...]
    measured: tuple[str, ...]


STORIES = Kind(
    (
        "Tell me a story about a dragon.",
        "Write a short story about a girl and a golden coin.",
        "Tell me a story about a boy named Tom.",
        "Write a story about a little boat.",
        "Tell me a story about a brave knight.",
        "Tell me a story about a bird.",
    ),
    (
        "Tell me a story about a lost dog.",
        "Tell me a story about a fox.",
        "Tell me a bedtime story.",
        "Write a short story about a boy and a silver key.",
        "Tell me a story about a princess.",
        "Write a story about a clever mouse.",
        "Tell me a story about a girl named Anna.",
        "Tell me a story about a farmer.",
    ),
)
MIXED = Kind(
    (
        "Tell me a story about a dragon.",
        "How do I make a cup of tea?",
        "Explain speculative decoding.",
        "What is a speculation tree?",
        "Tell me about dolphins.",
        "What is the meaning of life?",
        "Why is the sky blue?",
        "Write a poem about rain.",
        "Tell me a joke.",
        "What should I cook for dinner tonight?",
        "List five fruits.",
        "What can I do when I am sad?",
    ),
    (
        "Tell me a story about a fox.",
        "How do I plant a tree?",
        "What is a draft model?",
        "What is SpecExec?",
        "Tell me about elephants.",
        "Tell me about yourself, and what you like to do.",
        "Why do cats purr?",
        "Write a poem about the sea.",
        "Tell me a joke about a chicken.",
        "Let's talk about music.",
        "What are the months of the year?",
        "How can I sleep better?",
    ),
)
KINDS = {"stories": STORIES, "mixed": MIXED}
