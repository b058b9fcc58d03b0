"""Prompts that plans learn from, and those that they are measured with: the same ones, or others of the same kinds."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

SEED = 1  # of the lot by which prompts fall to either half
COUNT = 32  # that are learned from, as many as a plan rests on


@dataclass(frozen=True, slots=True)
class Kind:
    """Chats of one kind: what is asked before the plan is asked, and what after it."""

    learned: tuple[str, ...]
    measured: tuple[str, ...]

    @property
    def swapped(self) -> "Kind":
        """The same the other way round: what plans are off in both by as much is not the texts' doing."""
        return Kind(self.measured, self.learned)


def same(prompts: Sequence[str]) -> Kind:
    """Some of them, by lot, for both: their answers differ, what is asked does not."""
    lot = tuple(random.Random(SEED).sample(prompts, COUNT))
    return Kind(lot, lot)


def halves(prompts: Sequence[str]) -> Kind:
    """Of every two that begin alike the lot puts one into either half.

    Halves that somebody chose differ by what he thought of first and last, and those by lot alone by what is asked: the
    pair knows some answers by heart, and writes them at several times the speed of others.
    """
    lot, alike = random.Random(SEED), sorted(prompts)
    pairs = [lot.sample(alike[begin : begin + 2], len(alike[begin : begin + 2])) for begin in range(0, len(alike), 2)]
    learned, measured = [pair[0] for pair in pairs], [pair[1] for pair in pairs if len(pair) > 1]
    return Kind(tuple(lot.sample(learned, len(learned))), tuple(lot.sample(measured, len(measured))))


STORIES = (
    "Tell me a story about a dragon.",
    "Write a short story about a girl and a golden coin.",
    "Tell me a story about a boy named Tom.",
    "Write a story about a little boat.",
    "Tell me a story about a brave knight.",
    "Tell me a story about a bird.",
    "Tell me a story about a bear.",
    "Write a story about a lonely king.",
    "Tell me a story about a boy and his grandmother.",
    "Tell me a story about a wolf.",
    "Write a short story about a magic stone.",
    "Tell me a story about a rabbit.",
    "Tell me a story about a lost dog.",
    "Tell me a story about a fox.",
    "Tell me a bedtime story.",
    "Write a short story about a boy and a silver key.",
    "Tell me a story about a princess.",
    "Write a story about a clever mouse.",
    "Tell me a story about a girl named Anna.",
    "Tell me a story about a farmer.",
    "Tell me a story about a cat.",
    "Write a story about a poor shoemaker.",
    "Tell me a story about a girl and her grandfather.",
    "Tell me a story about an owl.",
    "Tell me a story about a horse.",
    "Tell me a story about a giant.",
    "Write a story about a fisherman.",
    "Tell me a story about two brothers.",
    "Write a short story about a golden bird.",
    "Tell me a story about a witch.",
    "Tell me a story about a snowman.",
    "Write a story about a little star.",
    "Tell me a story about a girl named Lily.",
    "Tell me a story about a duck.",
    "Write a story about an old tree.",
    "Tell me a story about a boy who lost his hat.",
)
MIXED = (
    "Tell me a story about a dragon.",
    "Write a story about a little boat.",
    "How do I make a cup of tea?",
    "How do I wash my hands?",
    "Explain speculative decoding.",
    "What is a speculation tree?",
    "What is a budget?",
    "Tell me about dolphins.",
    "Tell me about music.",
    "What is the meaning of life?",
    "Why is the sky blue?",
    "Why do leaves fall in autumn?",
    "Write a poem about rain.",
    "Write a poem about a cat.",
    "Tell me a joke.",
    "What should I cook for dinner tonight?",
    "Write a Python function that adds two numbers.",
    "List five fruits.",
    "What can I do when I am sad?",
    "Who won the football world cup in 2018?",
    "Tell me a story about a fox.",
    "Tell me a bedtime story.",
    "How do I plant a tree?",
    "How do I make pancakes?",
    "What is a draft model?",
    "What is SpecExec?",
    "What is Coppice?",
    "Tell me about elephants.",
    "Tell me about the moon.",
    "Tell me about yourself, and what you like to do.",
    "Why do cats purr?",
    "Why is the sea salty?",
    "Write a poem about the sea.",
    "Write a poem about the moon.",
    "Tell me a joke about a chicken.",
    "Let's talk about music.",
    "Write a Python program that prints hello.",
    "What are the months of the year?",
    "How can I sleep better?",
    "What is the capital of France?",
    "How do I tie my shoes?",
    "How do I write a letter?",
    "How do I bake a cake?",
    "How do I grow tomatoes?",
    "What is a target model?",
    "What is Sequoia?",
    "Explain what a token is.",
    "Tell me about horses.",
    "Tell me about the sun.",
    "Tell me about trains.",
    "Tell me about bees.",
    "Tell me about the sea.",
    "Why do birds sing?",
    "Why do we sleep?",
    "Why is snow white?",
    "Write a poem about a tree.",
    "Write a poem about the night.",
    "Tell me a joke about a dog.",
    "Write a Python function that counts words.",
    "What are the days of the week?",
    "List five animals.",
    "What is the capital of Italy?",
    "What should I read tonight?",
    "Can you recommend a good restaurant in San Jose?",
    "What can I do when I am bored?",
    "Tell me a story about a dragon and a mouse.",
    "Tell me a story about a cat.",
    "Write a story about a clever mouse.",
    "Hello, how are you?",
    "What is friendship?",
    "Who are you?",
)
PROMPTS = {"stories": STORIES, "mixed": MIXED}
CHOSEN: dict[str, Callable[[Sequence[str]], Kind]] = {
    "same": same,
    "halves": halves,
    "swapped": lambda prompts: halves(prompts).swapped,
}
