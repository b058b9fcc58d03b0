"""Calls are found in the text of answers of every format, however it is cut, and no other text is lost."""

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.pieces import CallArguments, CallBegun, Content, Piece
from engine.text.tools import formats
from engine.text.tools.formats import Format
from engine.text.tools.tape import merged
from tests.campaigns.extent import choose
from tests.engine.text.tools.recorded import RECORDED, TOOLS, Recorded, Said

ALL = {format.name: format for format, _ in formats.FORMATS}
PARTS = sorted(
    {mark for format in ALL.values() for mark in format.marks}
    | set(re.findall(r"\w+|\s+|[^\w\s]+", "".join(each.text for each in RECORDED.values())))
)


def divided(format: Format, parts: Sequence[str]) -> list[Piece]:
    """The pieces of a text that comes in these parts; ids are not compared."""
    divider = format.divider(TOOLS)
    pieces = [piece for part in parts for piece in divider.push(part)] + divider.flush()
    return merged([CallBegun(each.place, "", each.name) if isinstance(each, CallBegun) else each for each in pieces])


def said(pieces: Sequence[Piece]) -> Said:
    found: Said = []
    for piece in pieces:
        match piece:
            case CallBegun():
                found.append((piece.name, None))
            case CallArguments():
                name, _ = found.pop()
                found.append((name, json.loads(piece.text)))
            case Content():
                found.append(piece.text)
    return found


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_calls_are_found(recorded: Recorded) -> None:
    assert said(divided(recorded.format, [recorded.text])) == recorded.said


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=RECORDED)
def test_the_cuts_of_a_text_do_not_matter(recorded: Recorded) -> None:
    whole = divided(recorded.format, [recorded.text])
    assert divided(recorded.format, list(recorded.text)) == whole
    for cut in range(len(recorded.text)):
        assert divided(recorded.format, [recorded.text[:cut], recorded.text[cut:]]) == whole


@settings(deadline=None, max_examples=choose(60, 2000))
@given(format=st.sampled_from(list(ALL.values())), parts=st.lists(st.sampled_from(PARTS) | st.text(max_size=3)))
def test_any_text_is_divided_and_any_cut_of_it_alike(format: Format, parts: list[str]) -> None:
    assert divided(format, parts) == divided(format, ["".join(parts)])
