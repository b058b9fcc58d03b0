"""Token ids for what a text shows of pictures, one for each row: the same for the same picture, and no token's.

So whatever compares texts token by token, from the cache of a chat to files of yesterday, tells pictures apart, too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FIRST = 1 << 62  # far above any vocabulary, and still an int64
ROW_BITS = 16
DIGEST_BITS = 46
MOST_ROWS = 1 << ROW_BITS


@dataclass(frozen=True, slots=True)
class WrittenPicture:
    """How a picture stands in a prompt: `mark`, by the template, becomes `text`, each `token` in it one of `rows`."""

    mark: str
    text: str
    token: int
    rows: range


def rows_of(digest: bytes, count: int) -> range:
    """The ids of the rows of a picture with this digest, in their order; `count` is at most `MOST_ROWS`."""
    assert count <= MOST_ROWS, "no picture has so many"
    first = FIRST | (int.from_bytes(digest[:8], "big") >> (64 - DIGEST_BITS) << ROW_BITS)
    return range(first, first + count)


def is_row(token: int) -> bool:
    """Whether a token id stands for a row of a picture."""
    return token >= FIRST


def first_row(token: int) -> int:
    """The id of the first row of the picture that a row belongs to."""
    return token >> ROW_BITS << ROW_BITS


def row_number(token: int) -> int:
    """Which row of its picture it is, from 0."""
    return token & (MOST_ROWS - 1)


def without_rows(tokens: Iterable[int]) -> list[int]:
    """The tokens that are text."""
    return [token for token in tokens if not is_row(token)]


def beside_rows(tokens: Sequence[int], length: int) -> int:
    """The longest beginning, at most `length` long, that does not end between two rows of a picture."""
    while 0 < length < len(tokens) and is_row(tokens[length]) and row_number(tokens[length]) > 0:
        length -= row_number(tokens[length])
    return length
