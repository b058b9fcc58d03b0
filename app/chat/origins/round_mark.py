"""Finds the text that a round gave in what is shown of an answer, and marks it.

Markdown and the shown text differ, so words are looked for in order. Qt counts a character beyond the first 65,536 as
two positions, Python as one letter.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from PySide6.QtCore import QRect
from PySide6.QtGui import QColor, QTextBlock, QTextCharFormat, QTextCursor, QTextDocument, QTextFrame

from app.chat.text.document import MarkdownDocument, place_of
from app.chat.text.message_text import MessageText
from app.ui.theme import Colors

_LAYER = "round"  # of what is marked in a text
_STRENGTH = 80  # of 255, of the ground of what is marked
_WORD = re.compile(r"\S+")
_FARTHEST = 4_000  # characters of markup that can stand between two shown words


class PlacedWord(NamedTuple):
    """A shown word, from letter `start` to before `end`, and its `place` in the Markdown."""

    start: int
    end: int
    place: int


def placed_words(shown: str, source: str, begin: int) -> list[PlacedWord]:
    """The shown words that stand in `source` too, in order from its place `begin` on.

    What markup changed (an escaped star, a list's number) has no place.
    """
    found: list[PlacedWord] = []
    here = begin
    for word in _WORD.finditer(shown):
        place = source.find(word[0], here, here + _FARTHEST)
        if place >= 0:
            found.append(PlacedWord(word.start(), word.end(), place))
            here = place + len(word[0])
    return found


def source_place(shown: str, letter: int, source: str, begin: int) -> int | None:
    """The place in `source` of a shown letter, None if it has none."""
    for word in _WORD.finditer(shown):
        if word.start() <= letter < word.end():
            places = {each.start: each.place for each in placed_words(shown[: word.end()], source, begin)}
            return places[word.start()] + letter - word.start() if word.start() in places else None
    return None


def words_in(frame: QTextFrame, document: QTextDocument, source: str) -> Iterator[tuple[QTextBlock, list[PlacedWord]]]:
    """The paragraphs of a block's frame, each with its words that stand in the Markdown."""
    block = document.findBlock(frame.firstPosition())
    here = place_of(frame)
    while block.isValid() and block.position() <= frame.lastPosition():
        found = placed_words(block.text(), source, here)
        here = found[-1].place if found else here
        yield block, found
        block = block.next()


def positions_of(text: str, letters: int) -> int:
    """How many positions the first `letters` of a text take in a document."""
    return letters + sum(letter > "\uffff" for letter in text[:letters])


def letters_of(text: str, positions: int) -> int:
    """How many letters of a text stand before a position of a document."""
    letters = min(positions, len(text))
    while positions_of(text, letters) > positions:
        letters -= 1
    return letters


class RoundMark:
    """Marks a stretch of one section as an extra selection. Places count characters of the Markdown."""

    def __init__(self, text: MessageText, markdown: MarkdownDocument, colors: Colors) -> None:
        self._text = text
        self._markdown = markdown
        self._colors = colors
        self._stretch: tuple[int, int] | None = None

    def set_colors(self, colors: Colors) -> None:
        """Mark in other colours."""
        self._colors = colors
        self.refresh()

    def show(self, stretch: tuple[int, int] | None) -> None:
        """Mark what is from the first of these places to before the second; None for nothing."""
        if stretch != self._stretch:
            self._stretch = stretch
            self.refresh()

    def refresh(self) -> None:
        """The text was written anew where it is not settled yet."""
        cursors = self._cursors(*self._stretch) if self._stretch else ()
        self._text.mark_layer(_LAYER, [(each, self._format()) for each in cursors])

    @property
    def place(self) -> QRect | None:
        """Where the mark begins in the text's widget; None if there is nothing to be seen of it."""
        marked = self._text.layer(_LAYER)
        if not marked:
            return None
        cursor = QTextCursor(marked[0][0])
        cursor.setPosition(cursor.selectionStart())
        return self._text.cursorRect(cursor)

    def _format(self) -> QTextCharFormat:
        ground = QColor(self._colors.accent)
        ground.setAlpha(_STRENGTH)
        made = QTextCharFormat()
        made.setBackground(ground)
        made.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
        made.setUnderlineColor(QColor(self._colors.accent))
        return made

    def _cursors(self, begin: int, end: int) -> Iterator[QTextCursor]:
        document = self._text.document()
        frames = document.rootFrame().childFrames()
        places = [*(place_of(frame) for frame in frames), len(self._markdown.text) + 1]
        for frame, (here, following) in zip(frames, pairwise(places), strict=True):
            if here < end and following > begin:
                for block, words in words_in(frame, document, self._markdown.text):
                    if marked := [
                        each for each in words if each.place < end and each.place + each.end - each.start > begin
                    ]:
                        yield _cursor(block, marked, begin, end)


def _cursor(block: QTextBlock, words: list[PlacedWord], begin: int, end: int) -> QTextCursor:
    """What of these words stands between two places, selected with what is between them."""
    first, last = words[0], words[-1]
    start = first.start + max(0, begin - first.place)
    stop = min(last.end, last.start + end - last.place)
    cursor = QTextCursor(block)
    cursor.setPosition(block.position() + positions_of(block.text(), start))
    cursor.setPosition(block.position() + positions_of(block.text(), stop), QTextCursor.MoveMode.KeepAnchor)
    return cursor
