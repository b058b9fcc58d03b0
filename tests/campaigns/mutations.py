"""Changes JSON documents, lines and bytes at random; the same random numbers make the same changes."""

import json
import random
from copy import deepcopy
from typing import Any

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 1000, 2**31, 2**63, -(2**63), 10**30, 0.5, -1.5, 1e300, float("nan"), float("inf"),
    "", " ", "x", "user", "assistant", "\x00", "\u202e", "\ufeff", "é" * 300, "a" * 100_000, "../../etc/passwd",
    "<b>bold</b>", "$$\\frac{1}{", "```\n" * 50, "\ud800", [], [1], [[]], ["a"] * 2000, {}, {"a": 1}, [None],
)  # fmt: skip
PIECES = (
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"{",
    b"]",
    b'"',
    b"\n",
    b"1e999",
    b"NaN",
    b"\x1b",
)
DEEP = 100_000


def mutated_document(rng: random.Random, document: Any) -> Any:
    """The same document but for one to four values, keys or entries."""
    document = deepcopy(document)
    for _ in range(rng.choice((1, 1, 2, 4))):
        document = _changed(rng, document)
    return document


def _changed(rng: random.Random, document: Any) -> Any:
    where, key = None, None
    value = document
    while isinstance(value, dict | list) and value and (where is None or rng.random() < 0.8):
        where, key = value, rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        value = where[key]
    if where is None:
        return deepcopy(rng.choice(VALUES))
    _change_entry(rng, where, key)
    return document


def _change_entry(rng: random.Random, where: Any, key: Any) -> None:
    chance = rng.random()
    if chance < 0.55:
        where[key] = deepcopy(rng.choice(VALUES))
    elif chance < 0.7:
        del where[key]
    elif chance < 0.85 and isinstance(where, dict):
        where[rng.choice(("role", "content", "messages", "tree", "x", ""))] = where.pop(key)
    elif isinstance(where, list):
        where.insert(rng.randrange(len(where) + 1), deepcopy(where[key]))
    else:
        where[key] = [deepcopy(where[key])]


def mutated_bytes(rng: random.Random, content: bytes) -> bytes:
    """The same bytes but for one to three places: changed, cut off, said twice, put in, or in another encoding."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        place, chance = rng.randrange(len(content) + 1), rng.random()
        if chance < 0.3:
            content = content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]
        elif chance < 0.5:
            content = content[:place]
        elif chance < 0.65:
            content = content[:place] + content[place // 2 :]
        elif chance < 0.9:
            content = content[:place] + rng.choice(PIECES) + content[place:]
        elif chance < 0.95:
            content = content.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-8-sig", "utf-32")))
        else:
            content = content[:place] + rng.choice((b"[", b'{"a":')) * DEEP + content[place:]
    return content


def as_json_bytes(document: Any) -> bytes:
    """JSON as other programs write it: NaN and lone surrogates included."""
    return json.dumps(document).encode()
