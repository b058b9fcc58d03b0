"""What the model cannot know: an honest answer to the many questions outside its small world."""

import random

from dialogues.language import Deck, Turn, as_typed, expand, read_blocks, read_rows


class Unknown:
    """Questions that get "I do not know", with the unknown names drawn evenly."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        blocks = read_blocks("unknown.txt").items()
        self._cards = Deck([(ask, body) for asks, body in blocks for ask in asks.split(" / ")], rng)
        words = {name: body.split("\n") for name, body in read_blocks("unknown_words.txt").items()}
        names = read_blocks("names.txt")
        words["person"] = (names["she"] + "\n" + names["he"]).split("\n")
        words["place"] = [row[0] for row in read_rows("countries.txt")]
        words["thing"] = read_blocks("stories.txt")["things"].split("\n")
        self._words = {name: Deck(items, rng) for name, items in words.items()}

    def talk(self) -> list[Turn]:
        ask, answer = self._cards.deal()
        slots = {name: deck.deal() for name, deck in self._words.items()}
        slots["year"] = str(self._rng.randint(1900, 2026))
        slots["n"] = str(self._rng.randint(2, 12))
        slots["city_b"] = self._words["city"].deal()
        ask = ask.replace("to {city}?", "to {city_b}?") if ask.count("{city}") > 1 else ask
        while "{big}" in ask:
            ask = ask.replace(
                "{big}", str(self._rng.choice([self._rng.randint(41, 999), self._rng.randint(41, 99999)])), 1
            )
        question = expand(ask, self._rng, slots)
        return [(as_typed(question, self._rng), expand(answer, self._rng, slots))]
