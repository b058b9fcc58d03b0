"""Sums, comparisons and counting: every pair of small numbers comes up equally often."""

import random
from dataclasses import dataclass

from dialogues.language import NUMBERS, Deck, Turn, as_typed, expand


@dataclass(frozen=True)
class Sum:
    """One sum with its result, such as 7 plus 5 is 12."""

    left: int
    sign: str
    word: str
    right: int
    result: int


def all_sums() -> list[Sum]:
    """Plus up to 20 + 20, minus without negative results, times up to 10 x 10, and exact divisions."""
    sums = [Sum(a, "+", "plus", b, a + b) for a in range(21) for b in range(21)]
    sums += [Sum(a, "-", "minus", b, a - b) for a in range(21) for b in range(a + 1)]
    sums += [Sum(a, "*", "times", b, a * b) for a in range(11) for b in range(11)]
    sums += [Sum(a * b, "/", "divided by", b, a) for a in range(11) for b in range(1, 11)]
    return sums


class Numbers:
    """Questions about small numbers."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._sums = Deck(all_sums(), rng)
        self._pairs = Deck([(a, b) for a in range(21) for b in range(21) if a != b], rng)

    def sums(self) -> list[Turn]:
        """One to four sums in a row."""
        count = self._rng.choices([1, 2, 3, 4], [5, 2, 2, 1])[0]
        return [self._sum(first=position == 0) for position in range(count)]

    def _sum(self, *, first: bool) -> Turn:
        fact = self._sums.deal()
        word = "x" if fact.sign == "*" and self._rng.random() < 0.4 else fact.sign
        a, b, spoken, written = fact.left, fact.right, fact.word, word
        question = (
            f"[What is|What is|What is|What's|How much is|Calculate] [{a} {spoken} {b}|{a} {written} {b}]?"
            f"|{a} {written} {b}|{a}{written}{b}=?"
            f"|Can you tell me what {a} {spoken} {b} is?|What does {a} {spoken} {b} make?"
        )
        if not first:
            question += f"|And {a} {spoken} {b}?|And {a} {written} {b}?"
        question = expand(f"[{expand(question, self._rng)}]", self._rng)
        answer = expand(f"[{a} {spoken} {b} is {fact.result}.|{a} {written} {b} = {fact.result}]", self._rng)
        return as_typed(question, self._rng), answer

    def compare(self) -> list[Turn]:
        a, b = self._pairs.deal()
        high, low = max(a, b), min(a, b)
        big, small = self._rng.choice([("bigger", "smaller"), ("larger", "smaller"), ("greater", "less")])
        form = self._rng.randrange(4)
        if form == 0:
            turn = f"Which [number|] is {big}, {a} or {b}?", f"{high} is {big} than {low}."
        elif form == 1:
            turn = f"Which [number|] is {small}, {a} or {b}?", f"{low} is {small} than {high}."
        elif form == 2:
            verdict = f"Yes, {a} is {big} than {b}." if a > b else f"No, {a} is {small} than {b}."
            turn = f"Is {a} {big} than {b}?", verdict
        else:
            verdict = f"Yes, {a} is {small} than {b}." if a < b else f"No, {a} is {big} than {b}."
            turn = f"Is {a} {small} than {b}?", verdict
        return [(as_typed(expand(turn[0], self._rng).replace("  ", " "), self._rng), turn[1])]

    def count(self) -> list[Turn]:
        form, n = self._rng.randrange(3), self._rng.randint(3, 20)
        if form == 0:
            question = expand(f"[Count to {n}.|Count from 1 to {n}.|Can you count to {n}?]", self._rng)
            return [(as_typed(question, self._rng), ", ".join(map(str, range(1, n + 1))) + ".")]
        if form == 1:
            n = min(n, 12)
            question = expand(f"[Count to {NUMBERS[n]}.|Can you count to {NUMBERS[n]}?]", self._rng)
            return [(as_typed(question, self._rng), ", ".join(NUMBERS[1 : n + 1]) + ".")]
        after = self._rng.random() < 0.5
        side, other = ("after", n + 1) if after else ("before", n - 1)
        question = expand(f"[What|Which] number comes {side} {n}?", self._rng)
        return [(as_typed(question, self._rng), f"{other} comes {side} {n}.")]
