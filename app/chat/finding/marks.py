"""Marks what was found in the texts that exist, and knows where on the screen it stands."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from weakref import WeakSet

from PySide6.QtCore import QObject, QPoint, QRect, QTimer
from PySide6.QtGui import QColor, QTextBlock, QTextCharFormat, QTextCursor, QTextDocument

from app.chat.finding.hits import Place
from app.chat.finding.needle import Needle
from app.chat.history.message import TEXT
from app.chat.origins.round_mark import positions_of
from app.chat.text.document_style import copied_block
from app.chat.text.message_text import MessageText
from app.chat.typesetting.formula_places import OBJECT, SOURCE
from app.chat.view.answer_view import AnswerView
from app.chat.view.conversation_view import ConversationView
from app.chat.view.message_column import MessageView

_LAYER = "found"  # of what is marked in a text
_MOST_MARKED = 1_000  # in one text, before and behind the current hit: a letter can stand in every place of it

Stretch = tuple[int, int]  # positions in a document


def stretches_in(document: QTextDocument, needle: Needle) -> Iterator[Stretch]:
    """Where something stands in what a document shows; in a formula: all of the formula."""
    block = document.begin()
    while block.isValid():
        yield from _in_block(block, needle)
        block = block.next()


def _in_block(block: QTextBlock, needle: Needle) -> Iterator[Stretch]:
    text = block.text()
    if OBJECT in text:
        yield from _among_formulas(block, needle)
        return
    begin = block.position()
    for place, (start, end) in enumerate(needle.spans(text)):
        if not place and _is_header(block):
            return
        first = positions_of(text, start)
        yield begin + first, begin + first + positions_of(text[start:end], end - start)


def _among_formulas(block: QTextBlock, needle: Needle) -> Iterator[Stretch]:
    """The same where pictures stand for what was written: letters of one formula all lie in its one position."""
    text, places = "", [block.position()]
    pieces = block.begin()
    while not pieces.atEnd():
        fragment = pieces.fragment()
        source = str(fragment.charFormat().property(SOURCE) or "")
        for letter in fragment.text():
            written = source if letter == OBJECT else letter
            text += written
            width = 2 if letter > "\uffff" else 1
            places += [places[-1]] * (len(written) - 1) + [places[-1] + width]
        pieces += 1
    for start, end in needle.spans(text):
        yield places[start], max(places[end], places[start] + 1)


def _is_header(block: QTextBlock) -> bool:
    """Whether it is the line above code, with what copies it."""
    pieces = block.begin()
    while not pieces.atEnd():
        if copied_block(pieces.fragment().charFormat()) is not None:
            return True
        pieces += 1
    return False


@dataclass(slots=True)
class _Marked:
    """What is marked in one text, and of which state of it; `stretches` go on a little behind the current one."""

    needle: Needle
    revision: int
    stretches: list[Stretch]
    current: int | None = None


class HitMarks(QObject):
    """Follows the texts of a conversation while something is looked for; a text that comes is marked in a moment."""

    def __init__(self, view: ConversationView) -> None:
        super().__init__(view)
        self._view = view
        self._needle: Needle | None = None
        self._current: Place | None = None
        self._marked: dict[MessageText, _Marked] = {}
        self._heard: WeakSet[MessageText] = WeakSet()  # whose changes are told
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._refresh)
        view.texts_changed.connect(self._on_changed)

    def show(self, needle: Needle | None, current: Place | None) -> None:
        """Mark what is looked for, and one hit more strongly; None for nothing."""
        self._needle, self._current = needle, current
        self._soon.start()

    def seek_current(self) -> None:
        """Bring the current hit into view, also out of a fold."""
        if self._current is None:
            return
        index, part, _ = self._current.section
        view = self._view.column.need(index)
        if part != TEXT and isinstance(view, AnswerView):
            view.unfold(part)
            self._view.column.settle()
        self._refresh()
        self._view.seek(index, self._place)

    def recolor(self) -> None:
        """The theme is another one."""
        for text in list(self._marked):
            self._marked[text].revision = -1
        self._soon.start()

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _on_changed(self) -> None:
        if self._needle is not None:
            self._soon.start()

    def _refresh(self) -> None:
        """Mark what has changed since the last time: what is looked for, the text, or which hit is the current one."""
        self._soon.stop()
        known, self._marked = self._marked, {}
        for index, view in self._view.column.built:
            for part, section, text in view.parts:
                if self._needle is None:
                    text.mark_layer(_LAYER, ())
                    continue
                before = known.get(text)
                if text not in self._heard:
                    self._heard.add(text)
                    text.document().contentsChanged.connect(self._on_changed)
                current = self._current
                is_here = current is not None and current.section == (index, part, section)
                self._marked[text] = self._mark(text, before, current.number if is_here and current else None)
        if self._needle is not None:
            self._view.approach()

    def _mark(self, text: MessageText, before: _Marked | None, current: int | None) -> _Marked:
        assert self._needle is not None, "something is looked for"
        revision = text.document().revision()
        state = (self._needle, revision, current)
        if before is not None and (before.needle, before.revision, before.current) == state:
            return before
        stretches = list(islice(stretches_in(text.document(), self._needle), (current or 0) + _MOST_MARKED))
        if current is not None and stretches:
            current = min(current, len(stretches) - 1)
        formats, first = (self._format(False), self._format(True)), max(0, (current or 0) - _MOST_MARKED)
        near = enumerate(stretches[first:], first)
        text.mark_layer(_LAYER, [(_cursor(text.document(), each), formats[place == current]) for place, each in near])
        return _Marked(self._needle, revision, stretches, current)

    def _place(self, view: MessageView) -> QRect | None:
        """Where the current hit stands in the view of its message."""
        if self._current is None:
            return None
        _, part, section = self._current.section
        for its_part, number, text in view.parts:
            marked = self._marked.get(text)
            if (
                (its_part, number) == (part, section)
                and marked is not None
                and len(marked.stretches) > self._current.number
            ):
                begin, _ = marked.stretches[self._current.number]
                cursor = _cursor(text.document(), (begin, begin))
                return text.cursorRect(cursor).translated(text.mapTo(view, QPoint()))
        return view.guess_of(part, section)

    def _format(self, is_current: bool) -> QTextCharFormat:
        colors = self._view.look.colors
        ink, made = colors.tree.bonus, QTextCharFormat()
        made.setBackground(QColor(ink.line if is_current else ink.fill))
        made.setForeground(QColor(colors.surface if is_current else ink.text))
        if is_current:  # not by its colour alone
            made.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
        return made


def _cursor(document: QTextDocument, stretch: Stretch) -> QTextCursor:
    cursor = QTextCursor(document)
    cursor.setPosition(stretch[0])
    cursor.setPosition(stretch[1], QTextCursor.MoveMode.KeepAnchor)
    return cursor
