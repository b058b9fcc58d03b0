"""Words: opposites, sizes, colors, the calendar, spelling, and lists that never repeat themselves."""

import random

from dialogues.language import (
    NUMBERS,
    Deck,
    Turn,
    article,
    as_typed,
    capital,
    expand,
    read_blocks,
    read_lines,
    read_rows,
    series,
)

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = ["January", "February", "March", "April", "May", "June"]
MONTHS += ["July", "August", "September", "October", "November", "December"]
CALENDAR = {
    "How many days are in a week?": "There are seven days in a week.",
    "How many months are in a year?": "There are twelve months in a year.",
    "How many days are in a year?": "There are 365 days in a year, and 366 in a leap year.",
    "How many hours are in a day?": "There are twenty-four hours in a day.",
    "How many minutes are in an hour?": "There are sixty minutes in an hour.",
    "How many seconds are in a minute?": "There are sixty seconds in a minute.",
    "What are the days of the week?": f"The days of the week are {series(DAYS)}.",
    "What are the months of the year?": f"The months of the year are {series(MONTHS)}.",
    "What are the four seasons?": "The four seasons are spring, summer, autumn and winter.",
}


class Vocabulary:
    """Questions about words and lists of words."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        pairs = [(left, right) for left, right in (line.split() for line in read_lines("opposites.txt"))]
        self._opposites = Deck(pairs + [(right, left) for left, right in pairs], rng)
        sizes = read_lines("sizes.txt")
        self._sizes = Deck([(a, b) for a in range(len(sizes)) for b in range(len(sizes)) if a != b], rng)
        self._size_names = sizes
        self._colors = Deck(read_rows("colors.txt"), rng)
        self._calendar = Deck(CALENDAR.items(), rng)
        self._categories = {name: body.split("\n") for name, body in read_blocks("lists.txt").items()}
        lengths = [(name, n) for name, words in self._categories.items() for n in range(2, min(10, len(words)) + 1)]
        self._lists = Deck(lengths, rng)
        self._words = Deck(sorted({w for words in self._categories.values() for w in words if " " not in w}), rng)

    def opposites(self) -> list[Turn]:
        turns = []
        for position in range(self._rng.choice([1, 1, 2])):
            word, opposite = self._opposites.deal()
            ask = (
                '[What is|What\'s|Tell me|Give me] the opposite of [{word}|"{word}"]?'
                if position == 0
                else "And of {word}?"
            )
            question = expand(ask, self._rng, {"word": word})
            turns.append((as_typed(question, self._rng), f"The opposite of {word} is {opposite}."))
        return turns

    def sizes(self) -> list[Turn]:
        a, b = self._sizes.deal()
        one, other = article(self._size_names[a]), article(self._size_names[b])
        bigger, smaller = (one, other) if a > b else (other, one)
        big = self._rng.choice(["bigger", "larger"])
        form = self._rng.randrange(4)
        if form == 0:
            turn = f"Which is {big}, {one} or {other}?", f"{capital(bigger)} is {big} than {smaller}."
        elif form == 1:
            turn = f"Which is smaller, {one} or {other}?", f"{capital(smaller)} is smaller than {bigger}."
        elif form == 2:
            no = f"No, {one} is smaller than {other}."
            turn = f"Is {one} {big} than {other}?", f"Yes, {one} is {big} than {other}." if a > b else no
        else:
            no = f"No, {one} is bigger than {other}."
            turn = f"Is {one} smaller than {other}?", f"Yes, {one} is smaller than {other}." if a < b else no
        return [(as_typed(turn[0], self._rng), turn[1])]

    def colors(self) -> list[Turn]:
        thing, color = self._colors.deal()
        question = expand(
            f"[What color is {thing}?|Which color does {thing} have?|What is the color of {thing}?]", self._rng
        )
        return [(as_typed(question, self._rng), f"{capital(thing)} is {color}.")]

    def calendar(self) -> list[Turn]:
        if self._rng.random() < 0.4:
            question, answer = self._calendar.deal()
            return [(as_typed(question, self._rng), answer)]
        names, kind = (DAYS, "day") if self._rng.random() < 0.5 else (MONTHS, "month")
        place = self._rng.randrange(len(names))
        side, step = self._rng.choice([("after", 1), ("before", -1)])
        question = expand(f"[What|Which] {kind} comes {side} {names[place]}?", self._rng)
        return [(as_typed(question, self._rng), f"{names[(place + step) % len(names)]} comes {side} {names[place]}.")]

    def spelling(self) -> list[Turn]:
        word = self._words.deal()
        if self._rng.random() < 0.6:
            question = expand(f"[Spell {word}.|How do you spell {word}?|Spell the word {word}.]", self._rng)
            return [(as_typed(question, self._rng), "-".join(word) + ".")]
        said = expand(f"[I like {word}|the {word} is here|hello world|good morning|this is my {word}]", self._rng)
        return [(f"{self._rng.choice(['Repeat after me', 'Say', 'Repeat this'])}: {said}", said)]

    def lists(self) -> list[Turn]:
        """A list that follows one fixed order from a random start, so that no word comes twice."""
        name, n = self._lists.deal()
        words = self._categories[name]
        start = 0 if self._rng.random() < 0.6 else self._rng.randrange(len(words))
        chosen = [words[(start + step) % len(words)] for step in range(n)]
        number = NUMBERS[n] if self._rng.random() < 0.7 else str(n)
        ask = f"[Name|List|Give me|Tell me|Can you name|Write a list of|I need] {number} {name}[.|?]"
        turns = [(as_typed(expand(ask, self._rng), self._rng), self._as_list(name, chosen))]
        if n < len(words) and self._rng.random() < 0.15:
            more = expand("[One more, please.|Another one?|Can you add one more?]", self._rng)
            turns.append((more, f"Sure: {words[(start + n) % len(words)]}."))
        return turns

    def _as_list(self, name: str, words: list[str]) -> str:
        form, head = self._rng.randrange(3), f"Here are {NUMBERS[len(words)]} {name}:"
        if form == 0:
            return f"{head} {series(words)}."
        if form == 1:
            return head + "\n\n" + "\n".join(f"{place}. {capital(word)}" for place, word in enumerate(words, 1))
        return head + "\n\n" + "\n".join(f"- {capital(word)}" for word in words)
