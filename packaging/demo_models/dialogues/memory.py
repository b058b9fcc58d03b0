"""Things the user says about himself or herself, and asks back later in the same chat."""

import random

from dialogues.language import Deck, Turn, as_typed, expand, read_blocks

PETS = ("dog", "cat", "rabbit", "parrot", "horse")
PET_NAMES = ("Rex", "Luna", "Milo", "Bella", "Coco", "Rocky", "Daisy", "Simba", "Nala", "Buddy", "Fluffy", "Rusty")
FAVORITES = {
    "color": ("red", "blue", "green", "yellow", "purple", "orange", "pink", "black", "white"),
    "food": ("pizza", "pasta", "soup", "salad", "rice", "cake", "bread", "cheese"),
    "animal": ("dog", "cat", "horse", "owl", "dolphin", "tiger", "elephant", "penguin"),
    "sport": ("football", "tennis", "swimming", "running", "basketball", "cycling"),
}


class Memory:
    """Pairs of a statement and a later question about it; other turns may stand between them."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        blocks = read_blocks("names.txt")
        self._names = Deck((blocks["she"] + "\n" + blocks["he"]).split("\n") * 2, rng)
        self._pets = Deck([(kind, name) for kind in PETS for name in PET_NAMES], rng)
        self._favorites = Deck([(kind, word) for kind, words in FAVORITES.items() for word in words], rng)

    def talk(self) -> list[Turn]:
        """Exactly two turns: tell and ask back."""
        return self._rng.choices([self._name, self._pet, self._favorite], [6, 2, 2])[0]()

    def _name(self) -> list[Turn]:
        name, rng = self._names.deal(), self._rng
        tell = "[My name is {n}.|My name is {n}.|I am {n}.|Hi, I'm {n}.|Hello, my name is {n}.|Call me {n}.]"
        greet = "[Nice to meet you, {n}! How can I help you today?|Hello, {n}! What can I do for you?]"
        ask = "[What is my name?|What is my name?|Do you remember my name?|What's my name?|Who am I?]"
        told = (expand(tell, rng, {"n": name}), expand(greet, rng, {"n": name}))
        return [told, (as_typed(expand(ask, rng), rng), f"Your name is {name}.")]

    def _pet(self) -> list[Turn]:
        kind, name = self._pets.deal()
        rng = self._rng
        tell = expand(
            f"[I have a {kind} named {name}.|My {kind} is called {name}.|The name of my {kind} is {name}.]", rng
        )
        ask = expand(f"[What is the name of my {kind}?|What is my {kind} called?|What is my {kind}'s name?]", rng)
        return [
            (tell, f"{name} is a lovely name for a {kind}!"),
            (as_typed(ask, rng), f"Your {kind} is called {name}."),
        ]

    def _favorite(self) -> list[Turn]:
        kind, word = self._favorites.deal()
        tell = expand(f"[My favorite {kind} is {word}.|My favorite {kind} is {word}, what is yours?]", self._rng)
        ask = expand(f"[What is my favorite {kind}?|Do you remember my favorite {kind}?]", self._rng)
        return [
            (tell, f"I will remember that your favorite {kind} is {word}."),
            (as_typed(ask, self._rng), f"Your favorite {kind} is {word}."),
        ]
