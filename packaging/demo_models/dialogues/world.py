"""Countries and animals: a few facts about each, asked from every side."""

import random

from dialogues.language import Deck, Turn, article, as_typed, capital, expand, plural, read_rows


class World:
    """Questions whose answers are rows of two small tables."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        countries, animals = read_rows("countries.txt"), read_rows("animals.txt")
        self._capitals = Deck(countries, rng)
        self._countries = Deck([(row, form) for row in countries for form in range(4)], rng)
        self._animals = Deck([(row, form) for row in animals for form in range(7)], rng)
        self._classes = sorted({row[1] for row in animals})

    def capitals(self) -> list[Turn]:
        turns = []
        for position in range(self._rng.choice([1, 1, 2])):
            country, city, _, _ = self._capitals.deal()
            ask = (
                "[What is the capital of {c}?|What is the capital of {c}?|Which city is the capital of {c}?"
                "|Tell me the capital of {c}.|Do you know the capital of {c}?|What's the capital city of {c}?]"
            )
            question = expand(ask if position == 0 else "And [of|what about] {c}?", self._rng, {"c": country})
            turns.append((as_typed(question, self._rng), f"The capital of {country} is {city}."))
        return turns

    def countries(self) -> list[Turn]:
        (country, city, continent, languages), form = self._countries.deal()
        spoken = f"People there speak {languages}."
        where = f"{capital(country)} is in {continent}."
        ask, answer = [
            ("[Where is {c}?|On which continent is {c}?|In which part of the world is {c}?]", where),
            (
                "[What language do people speak in {c}?|Which language is spoken in {c}?]",
                f"People in {country} speak {languages}.",
            ),
            (
                "[What country is {k} in?|Where is {k}?|{k} is the capital of which country?]",
                f"{city} is the capital of {country}.",
            ),
            (
                "[Tell me about {c}.|What do you know about {c}?|Describe {c}.|Tell me something about {c}.]",
                f"{capital(country)} is a country in {continent}. Its capital is {city}. {spoken}",
            ),
        ][form]
        return [(as_typed(expand(ask, self._rng, {"c": country, "k": city}), self._rng), answer)]

    def animals(self) -> list[Turn]:
        (name, kind, food, home, sound, young, fact), form = self._animals.deal()
        one, many = article(name), plural(name)
        other = self._rng.choice([c for c in self._classes if c != kind])
        portrait = f"{capital(one)} is {article(kind)}. {capital(many)} live in {home}. They eat {food}. {fact}."
        about = (
            "[Tell me about {many}.|What do you know about {many}?|What is {one}?|Describe {one}."
            "|Tell me something about {many}.|Tell me about the {name}.|Give me some facts about {many}.]"
        )
        ask, answer = [
            ("[What does {one} eat?|What do {many} eat?]", f"{capital(many)} eat {food}."),
            ("[Where do {many} live?|Where does {one} live?]", f"{capital(many)} live in {home}."),
            (
                "[What sound does {one} make?|What noise does {one} make?|What does {one} say?]",
                f"{capital(one)} {sound}.",
            ),
            (
                f"[What is a baby {name} called?|What do you call a baby {name}?]",
                f"A baby {name} is called {article(young)}.",
            ),
            (
                f"[Is {{one}} {article(kind)}?|Are {{many}} {kind}s?]" if kind != "fish" else "Is {one} a fish?",
                f"Yes, {one} is {article(kind)}.",
            ),
            (f"Is {{one}} {article(other)}?", f"No, {one} is not {article(other)}. It is {article(kind)}."),
            (about, portrait + f" A baby {name} is called {article(young)}."),
        ][form]
        question = expand(ask, self._rng, {"one": one, "many": many, "name": name})
        return [(as_typed(question, self._rng), answer)]
