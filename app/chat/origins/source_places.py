"""Finds the place in an answer's Markdown that a place in the shown text comes from.

Qt counts a character beyond the first 65,536 as two places, Python as one letter.
"""

import re

_WORD = re.compile(r"\S+")
_FARTHEST = 4_000  # characters of markup that can stand between two shown words


def source_places(shown: str, source: str, begin: int) -> dict[int, int]:
    """The place in `source` of every shown word that stands there too: places count characters.

    Words are looked for in order from `begin` on. What markup changed (an escaped star, a list's number) has no place.
    """
    places: dict[int, int] = {}
    here = begin
    for word in _WORD.finditer(shown):
        found = source.find(word[0], here, here + _FARTHEST)
        if found >= 0:
            places[word.start()] = found
            here = found + len(word[0])
    return places


def source_place(shown: str, place: int, source: str, begin: int) -> int | None:
    """The place in `source` of the shown character at `place`, None if it has none."""
    for word in _WORD.finditer(shown):
        if word.start() <= place < word.end():
            found = source_places(shown[: word.end()], source, begin).get(word.start())
            return None if found is None else found + place - word.start()
    return None


def places_of(text: str, letters: int) -> int:
    """How many places the first `letters` of a text take in a document."""
    return letters + sum(letter > "\uffff" for letter in text[:letters])


def letters_of(text: str, places: int) -> int:
    """How many letters of a text stand before the place number `places` of a document."""
    letters = min(places, len(text))
    while places_of(text, letters) > places:
        letters -= 1
    return letters
