"""Which round a character came from."""

from itertools import pairwise

import pytest
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QApplication

from app.chat.history.token_origins import TokenOrigin, TokenOrigins
from app.chat.origins.round_mark import placed_words, source_place, words_in
from app.ui.theme import LIGHT
from engine.protocol.messages import Round, Seconds, Tree
from tests.app.chat.text.growing import Growing


def round_(index: int, drafted: list[str], bonus: str, text: str | None = None) -> Round:
    """A round that accepted these pieces; its text is all of them unless something is held back."""
    tree = Tree(b"", b"", b"", ("", *drafted))
    whole = "".join(drafted) + bonus
    accepted = tuple(range(len(drafted) + 1))
    return Round(7, index, tree, accepted, 0, bonus, len(drafted) + 1, whole if text is None else text, Seconds())


def test_every_character_has_its_round_and_kind() -> None:
    origins = TokenOrigins()
    origins.add(round_(0, ["one ", "two "], "three "))
    origins.add(round_(1, [], "four"))
    assert origins.at(0) == TokenOrigin(7, 0, False)
    assert origins.at(8) == TokenOrigin(7, 0, True)
    assert origins.at(14) == TokenOrigin(7, 1, True)
    assert origins.at(18) is None
    assert list(origins.between(4, 16)) == [(4, 8, False), (8, 14, True), (14, 16, True)]


def test_held_back_text_belongs_to_the_round_that_wrote_it() -> None:
    origins = TokenOrigins()
    origins.add(round_(0, ["ab"], "</", text="ab"))
    origins.add(round_(1, ["s"], ">", text="</s>"))
    assert origins.at(2) == TokenOrigin(7, 0, True)
    assert origins.at(4) == TokenOrigin(7, 1, False)


def test_what_stood_there_before_has_no_round() -> None:
    origins = TokenOrigins(5)
    origins.add(round_(0, [], "new"))
    assert origins.at(4) is None
    assert origins.at(5) == TokenOrigin(7, 0, True)


def test_shown_words_are_found_in_the_markdown() -> None:
    source = "# Title\n\nSome *bold* `code` and [text](http://x/y) end"
    shown = "Some bold code and text end"
    places = {each.start: each.place for each in placed_words(shown, source, 9, len(source))}
    assert source[places[shown.index("end")] :] == "end"
    place = source_place(shown, shown.index("bold") + 2, source, 9, len(source))
    assert place is not None
    assert source[place:].startswith("ld*")
    assert source_place(shown, 4, source, 9, len(source)) is None, "a gap between words comes from nowhere"


def test_words_are_looked_for_in_their_own_block() -> None:
    source = "- **Speed**: fast for one user\n- **Size**: small\n\nSpeed: it is fast for many more."
    shown = "Speed: fast for one user\nSize: small"
    end = source.index("Speed: it")
    assert source_place(shown, shown.index("fast"), source, 0, end) == source.index("fast")
    assert all(each.place < end for each in placed_words(shown, source, 0, end))


def test_letters_of_a_text_without_spaces_are_found_around_markup() -> None:
    source = "这是**粗体**文字,又是(*GPU*)。"
    shown = source.replace("*", "")
    words = placed_words(shown, source, 0, len(source))
    assert "".join(source[each.place : each.stop] for each in words) == shown
    assert source_place(shown, shown.index("文"), source, 0, len(source)) == source.index("文")


@pytest.mark.parametrize(
    ("text", "count"), [("| a | b |\n|---|---|\n| yes | yes |\n| yes | no |", 6), ("- yes\n- yes\n- yes no", 4)]
)
def test_equal_words_one_after_the_other_have_places_of_their_own(qapp: QApplication, text: str, count: int) -> None:
    document = QTextDocument()
    markdown = Growing(document, LIGHT)
    markdown.append(text)
    (frame,) = markdown.block_frames()
    places = [each.place for _, words in words_in(frame, document, text) for each in words]
    assert len(places) == count
    assert all(first < second for first, second in pairwise(places))
