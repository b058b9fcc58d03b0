"""Whole chats: skills mixed by weight, sometimes with a system prompt, a memory or a goodbye."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from dialogues.knowledge import Answers, Knowledge
from dialogues.language import Deck, Turn, expand, read_lines
from dialogues.memory import Memory
from dialogues.numbers import Numbers
from dialogues.stories import Stories
from dialogues.unknown import Unknown
from dialogues.vocabulary import Vocabulary
from dialogues.world import World

REVIEW_NUMBERS = 6  # how much more often a review talks about numbers


@dataclass(frozen=True)
class Dialogue:
    """One chat; `system` is empty when there is no system prompt."""

    system: str
    turns: tuple[Turn, ...]


class Conversations:
    """An endless source of dialogues; the same seed gives the same ones.

    A review talks more often about what is hardest to learn and about what is asked first.
    """

    def __init__(self, seed: int, *, review: bool = False) -> None:
        self._rng = rng = random.Random(seed)
        numbers, words, world, known = Numbers(rng), Vocabulary(rng), World(rng), Knowledge(rng)
        often = REVIEW_NUMBERS if review else 1
        small_talk, self._memory = Answers("smalltalk.txt", rng), Memory(rng)
        skills: list[tuple[Callable[[], list[Turn]], float]] = [
            (numbers.sums, 12 * often), (numbers.compare, 3 * often), (numbers.count, 2 * often),
            (words.opposites, 3), (words.sizes, 2.5), (words.colors, 1.5), (words.calendar, 2), (words.spelling, 1.5),
            (words.lists, 6), (world.capitals, 5), (world.countries, 5), (world.animals, 8),
            (small_talk.talk, 26 if review else 13), (Answers("coppice.txt", rng).talk, 6),
            (Answers("code.txt", rng).talk, 5), (Answers("why.txt", rng).talk, 6),
            (known.topics, 9), (known.steps, 6), (known.poems, 2), (known.jokes, 2),
            (known.feelings, 3), (Unknown(rng).talk, 11), (Stories(rng).talk, 9),
        ]  # fmt: skip
        self._skills = [skill for skill, _ in skills]
        self._weights = [weight for _, weight in skills]
        self._systems = Deck(read_lines("systems.txt"), rng)

    def next(self) -> Dialogue:
        rng, turns = self._rng, list[Turn]()
        for _ in range(rng.choices([1, 2, 3, 4], [5, 3, 2, 1])[0]):
            turns += rng.choices(self._skills, self._weights)[0]()
        if rng.random() < 0.15:
            told, asked = self._memory.talk()
            turns = [told, *turns, asked] if rng.random() < 0.6 else [told, asked, *turns]
        if rng.random() < 0.08:
            goodbye = "[Thank you, bye!|Thanks, goodbye!|Bye, and thank you.]", "You are welcome. Goodbye!"
            turns.append((expand(goodbye[0], rng), goodbye[1]))
        return Dialogue(self._systems.deal() if rng.random() < 0.3 else "", tuple(turns))
