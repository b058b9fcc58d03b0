"""Every token shows as one line of visible characters."""

import unicodedata
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tree.rounds.text import visible

INVISIBLE: Final = ("Cc", "Cf", "Zs", "Zl", "Zp", "Cs")


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        (" the", "·the"),
        ("\n\n", "⏎⏎"),
        ("\t", "\\t"),
        ("\r\n", "\\r⏎"),
        ("\x00\x1b", "\\x00\\x1b"),
        ("\u202eabc", "\\u202eabc"),
        ("\u2028", "\\u2028"),
        ("\U000e0041", "\\U000e0041"),
        ("\u00a0x", "·x"),
        ("\ufffd", "\ufffd"),
        ("\u0301", "◌\u0301"),
        ("<b>", "<b>"),
        ("", "‹42›"),
        ("\U0001f469\u200d\U0001f467", "\U0001f469\u200d\U0001f467"),
        ("\u2764\ufe0f\u200d\U0001f525", "\u2764\ufe0f\u200d\U0001f525"),
        ("\U0001f469\u200d", "\U0001f469\\u200d"),
        ("a\u200db", "a\\u200db"),
    ],
)
def test_invisible_characters_are_made_visible(piece: str, shown: str) -> None:
    assert visible(piece, 42) == shown


@settings(deadline=None)
@given(st.text(st.characters(codec=None, categories=INVISIBLE, include_characters="aé\u0301")))
def test_nothing_invisible_is_left(piece: str) -> None:
    shown = visible(piece.replace("\u200d", ""), 1)  # joiners of emoji are tried above
    assert shown
    assert not {unicodedata.category(character) for character in shown} & set(INVISIBLE)


def test_very_long_piece_is_cut() -> None:
    assert len(visible("x" * 100_000, 1)) < 300
