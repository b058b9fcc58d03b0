"""How well a few letters fit a name: pure."""

from dataclasses import dataclass

_WORD_START, _NEIGHBOUR, _LETTER = 8, 5, 1
_BREAKS = frozenset(" -_/:(.›&")


@dataclass(frozen=True, slots=True)
class Match:
    """A fit: the larger `score` the better; `places` are the letters of the name that were meant."""

    score: int = 0
    places: tuple[int, ...] = ()


def match(wanted: str, name: str) -> Match | None:
    """The best fit of the letters of `wanted`, in their order, with `name`; None where they do not fit.

    Every word that is wanted is looked for by itself, so their order is free. Letters at the beginning of a word and
    side by side count for more; so a name that holds the words as they are comes before one that has them scattered.
    """
    score, places = 0, set[int]()
    for word in wanted.casefold().split():
        found = _match_word(word, name.casefold())
        if found is None:
            return None
        score += found.score
        places.update(found.places)
    return Match(score, tuple(sorted(places)))


def _match_word(word: str, name: str) -> Match | None:
    """The best of the fits that begin at each place where the word's first letter stands."""
    starts = (place for place, letter in enumerate(name) if letter == word[0])
    found = [each for start in starts if (each := _from(start, word, name)) is not None]
    return max(found, key=lambda each: each.score, default=None)


def _from(start: int, word: str, name: str) -> Match | None:
    """Take the next place for each letter, preferring the one beside the last."""
    places = [start]
    for letter in word[1:]:
        place = name.find(letter, places[-1] + 1)
        if place < 0:
            return None
        places.append(place)
    score = sum(_worth(place, places[index - 1] if index else -2, name) for index, place in enumerate(places))
    return Match(score - (places[-1] - start) // 4, tuple(places))


def _worth(place: int, before: int, name: str) -> int:
    worth = _LETTER
    if place == 0 or name[place - 1] in _BREAKS:
        worth += _WORD_START
    if place == before + 1:
        worth += _NEIGHBOUR
    return worth
