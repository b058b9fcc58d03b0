"""Finds the text that a round gave in what is shown of an answer, and marks it.

Markdown and the shown text differ, so words are looked for in order. Qt counts a character beyond the first 65,536 as
two positions, Python as one letter.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from PySide6.QtCore import QRect
from PySide6.QtGui import QColor, QTextBlock, QTextCharFormat, QTextCursor, QTextDocument

from app.chat.text.document import BlockFrame, MarkdownDocument
from app.chat.text.message_text import MessageText
from app.ui.theme import Colors

_LAYER = "round"  # of what is marked in a text
_STRENGTH = 80  # of 255, of the ground of what is marked
_WORD = re.compile(r"\S+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")  # Chinese and Japanese have no spaces
_PIECE = re.compile(rf"{_UNSPACED.pattern}|[^\W{_UNSPACED.pattern[1:-1]}]+|\W")
_FARTHEST = 4_000  # characters of markup that can stand between two shown words


class PlacedWord(NamedTuple):
    """A shown word, from letter `start` to before `end`, and its `place` in the Markdown."""

    start: int
    end: int
    place: int

    @property
    def stop(self) -> int:
        """The place behind its last letter."""
        return self.place + self.end - self.start


def placed_words(shown: str, source: str, begin: int, end: int) -> list[PlacedWord]:
    """The shown words that stand in `source` too, in order from its place `begin` to before `end`.

    What markup changed (an escaped star, a list's number) has no place. Where there are no spaces, what is between
    markup is a word.
    """
    found: list[PlacedWord] = []
    here = begin
    for word in _WORD.finditer(shown):
        is_cut = _UNSPACED.search(word[0]) and source.find(word[0], here, min(end, here + _FARTHEST)) < 0
        for piece in _PIECE.finditer(shown, *word.span()) if is_cut else [word]:
            place = source.find(piece[0], here, min(end, here + _FARTHEST))
            if place < 0:
                continue
            start, here = piece.start(), place + len(piece[0])
            if found and (found[-1].end, found[-1].stop) == (start, place):
                start, _, place = found.pop()
            found.append(PlacedWord(start, piece.end(), place))
    return found


def source_place(shown: str, letter: int, source: str, begin: int, end: int) -> int | None:
    """The place in `source`, between `begin` and `end`, of a shown letter; None if it has none."""
    words = placed_words(shown, source, begin, end)
    return next((each.place + letter - each.start for each in words if each.start <= letter < each.end), None)


def words_in(own: BlockFrame, document: QTextDocument, source: str) -> Iterator[tuple[QTextBlock, list[PlacedWord]]]:
    """The paragraphs of a block's frame, each with its words that stand in the block's Markdown."""
    block = document.findBlock(own.frame.firstPosition())
    here = own.begin
    while block.isValid() and block.position() <= own.frame.lastPosition():
        found = placed_words(block.text(), source, here, own.end)
        here = found[-1].stop if found else here
        yield block, found
        block = block.next()


def positions_of(text: str, letters: int) -> int:
    """How many positions the first `letters` of a text take in a document."""
    return len(text[:letters].encode("utf-16-le", "surrogatepass")) // 2


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
        for each in self._markdown.block_frames():
            if each.begin < end and each.end > begin:
                for block, words in words_in(each, document, self._markdown.text):
                    if marked := [word for word in words if word.place < end and word.stop > begin]:
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
