"""Ids of rows of pictures: no token's, the same for the same picture, and in order."""

import array

from hypothesis import given
from hypothesis import strategies as st

from engine.picture_tokens import (
    DIGEST_BITS,
    MOST_ROWS,
    beside_rows,
    first_row,
    is_row,
    row_number,
    rows_of,
    without_rows,
)

DIGESTS = st.binary(min_size=32, max_size=32)


@given(DIGESTS, st.integers(1, MOST_ROWS))
def test_rows_are_int64_and_say_which_they_are(digest: bytes, count: int) -> None:
    rows = rows_of(digest, count)
    assert len(rows) == count
    assert all(map(is_row, (rows[0], rows[-1])))
    assert array.array("q", (rows[0], rows[-1])).tolist() == [rows[0], rows[-1]]
    assert (row_number(rows[0]), row_number(rows[-1])) == (0, count - 1)
    assert first_row(rows[-1]) == rows[0]


@given(DIGESTS, DIGESTS)
def test_pictures_share_no_rows(one: bytes, other: bytes) -> None:
    counted = [int.from_bytes(digest) >> 256 - DIGEST_BITS for digest in (one, other)]
    assert bool(set(rows_of(one, 5)) & set(rows_of(other, 5))) == (counted[0] == counted[1])


def test_texts_without_rows() -> None:
    rows = rows_of(bytes(32), 3)
    assert without_rows([1, 2, *rows, 3]) == [1, 2, 3]
    assert not any(map(is_row, (0, 1 << 20, 262_143)))


def test_a_beginning_does_not_end_inside_a_picture() -> None:
    rows = rows_of(bytes(32), 3)
    text = [1, 2, *rows, *rows_of(b"\1" * 32, 2), 3]
    assert [beside_rows(text, length) for length in range(len(text) + 1)] == [0, 1, 2, 2, 2, 5, 5, 7, 8]
