"""Names of tools for models: letters, digits, `_` and `-`, at most 64, and no two alike."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256

LONGEST = 64
_LONGEST_SERVER = 24
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")

Place = tuple[str, str]
"""A server and a tool of it, as people know them."""


def function_names(places: Iterable[Place]) -> Mapping[Place, str]:
    """A name for each: `server__tool`, with some digits behind it where that is too long or not the only one.

    The name of a tool does not depend on which others there are, unless they would have the same.
    """
    plain = {place: _plain(place) for place in places}
    counts = Counter(plain.values())
    return {
        place: name if counts[name] == 1 and len(name) <= LONGEST else f"{name[: LONGEST - 9]}_{_digits(place)}"
        for place, name in plain.items()
    }


def _plain(place: Place) -> str:
    server, tool = (_OTHER.sub("_", each).strip("_") for each in place)
    return f"{server[:_LONGEST_SERVER] or 'server'}__{tool or 'tool'}"


def _digits(place: Place) -> str:
    return sha256(ascii(place).encode()).hexdigest()[:8]
