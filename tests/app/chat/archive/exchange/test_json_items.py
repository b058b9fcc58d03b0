"""A long list is taken apart into its items, wherever the pieces that are read end."""

import io
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chat.archive.exchange import json_items
from app.chat.archive.exchange.json_items import ItemTooLargeError, UnendedListError, is_list, items
from tests.campaigns.extent import choose

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"\\[]{},: \n\u00e4\U0001f600'), max_size=8),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=3), inside, max_size=4),
    max_leaves=12,
)


def taken_apart(content: bytes, piece: int, most: int = 1 << 20) -> list[bytes]:
    before, json_items._PIECE_BYTES = json_items._PIECE_BYTES, piece
    try:
        found = []
        with suppress(UnendedListError):
            for each in items(io.BytesIO(content), most, most):
                found.append(each)  # what came before the error counts
        return found
    finally:
        json_items._PIECE_BYTES = before


@settings(max_examples=choose(12, 200), deadline=None)
@given(st.lists(VALUES, max_size=5), st.integers(1, 30), st.sampled_from([None, 1]))
def test_the_items_are_those_of_the_list(values: list[Any], piece: int, indent: int | None) -> None:
    content = json.dumps(values, indent=indent).encode()
    assert [json.loads(each) for each in taken_apart(content, piece)] == values


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b" [ ] ", []),
        (b'\xef\xbb\xbf[1, "]"]', [b"1", b'"]"']),
        (b'[{"a": "\\\\"}, 2', [b'{"a": "\\\\"}', b"2"]),  # breaks off
        (b"[1, 2] [3]", [b"1", b"2"]),
        (b'["\\"', [b'"\\"']),
        (b"[}", []),
    ],
)
@pytest.mark.parametrize("piece", [1, 2, 1 << 18])
def test_what_is_damaged_is_handed_on_as_it_is(content: bytes, wanted: list[bytes], piece: int) -> None:
    assert taken_apart(content, piece) == wanted


def test_an_item_that_does_not_end_is_not_read_to_its_end() -> None:
    for begin in (b"[" * 5000, b'["' + b"x" * 5000, b"[{" + b"[" * 5000):
        file = io.BytesIO(begin + b"1" * 100_000)
        before, json_items._PIECE_BYTES = json_items._PIECE_BYTES, 1024
        try:
            with pytest.raises(ItemTooLargeError):
                list(items(file, 2000, 2000))
        finally:
            json_items._PIECE_BYTES = before
        assert file.tell() < 5000


@pytest.mark.parametrize(("content", "wanted"), [(b"\xef\xbb\xbf \n[", True), (b"{", False), (b"", False)])
def test_a_list_is_told_by_its_beginning(content: bytes, wanted: bool) -> None:
    file = io.BytesIO(content)
    assert is_list(file) == wanted
    assert file.tell() == 0
