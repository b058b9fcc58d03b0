"""The text of one answer: what is still to come in the race is pale, what differs is tinted, tokens can be found."""

from collections.abc import Sequence
from itertools import accumulate

from PySide6.QtCore import QEvent, QPoint, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QResizeEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QTextEdit, QWidget

from app.chat.typesetting.layout_cost import is_writable, prefix_within
from app.comparison.transcript import Transcript
from app.engine.token_times import TokenTimes
from app.ui.colors import Colors
from app.ui.theme import reading_font

_PALE = 0.3  # of the colour of text, on its ground: to be seen, and not to be read for the rest
_MOST_SHOWN = 20_000  # letters of a text that is too much for a field

# What a text field would count otherwise than Python does: two letters for one end of a line, and what ends a text.
_BREAKS = str.maketrans({"\r": " ", "\0": "\N{REPLACEMENT CHARACTER}"})


class TextPane(QPlainTextEdit):
    """Shows a transcript as it was written, Markdown and all, so that every character has its token."""

    scrolled = Signal()  # by a person or by keys, not by `go_to`
    pointed = Signal(int)  # number of the token under the mouse or at the cursor; -1 for none

    def __init__(self, name: str, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colors = colors
        self._times = TokenTimes()
        self._written = self._held = ""  # what there is, and what of it the field holds
        self._places: Sequence[int] | None = None  # of characters in the field, where some count as two
        self._shown: int | None = None  # tokens; None for all
        self._different: int | None = None  # the first token that differs
        self._pointed = -1
        self._marks: list[QTextCursor] = []
        self._is_moving = self._is_laid_out = False
        self.setReadOnly(True)
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setObjectName("compared")
        self.setTabChangesFocus(True)
        self.setFont(reading_font())
        self.setMouseTracking(True)
        self.viewport().setMouseTracking(True)
        flags = Qt.TextInteractionFlag
        self.setTextInteractionFlags(flags.TextSelectableByMouse | flags.TextSelectableByKeyboard)
        self.document().setDocumentMargin(12)
        self.verticalScrollBar().valueChanged.connect(self._on_scrolled)
        self.cursorPositionChanged.connect(self._on_cursor)

    # ---- what is shown ----------------------------------------------------------------------------------------------

    def show_transcript(self, transcript: Transcript | None) -> None:
        """Show another text, or more of this one."""
        self._times = transcript.times if transcript else TokenTimes()
        written = transcript.text if transcript else ""
        if written == self._written:
            self._mark()
            return
        text, before = showable(written), self._held
        self._written, self._held = written, text
        self._places = utf16_places(text)
        self._is_laid_out = False
        self._is_moving = True
        if before and text.startswith(before):
            cursor, bar = QTextCursor(self.document()), self.verticalScrollBar()
            follows = bar.value() >= bar.maximum()
            cursor.movePosition(QTextCursor.MoveOperation.End)
            cursor.insertText(text[len(before) :])
            if follows:  # a person who has scrolled up reads on there
                bar.setValue(bar.maximum())
        else:
            self.setPlainText(text)
        self._is_moving = False
        self._mark()

    def show_difference(self, token: int | None) -> None:
        """Tint everything from this token on; None for nothing."""
        self._different = token
        self._mark()

    def show_tokens(self, count: int | None) -> None:
        """Let all but the first so many tokens be pale; None for none."""
        if count != self._shown:
            self._shown = count
            self._mark()

    def point_at(self, token: int) -> None:
        """Mark a token; -1 for none."""
        if token != self._pointed:
            self._pointed = token
            self._mark()

    def set_colors(self, colors: Colors) -> None:
        """Draw the marks in other colours."""
        self._colors = colors
        self.setFont(reading_font())
        self._mark()

    @property
    def cut_to(self) -> int:
        """How many characters are shown of a text that is too long for a field; 0 where all are."""
        return len(self._held) if len(self._held) < len(self._written) else 0

    @property
    def marked(self) -> tuple[str, ...]:
        """The texts of all marks, the lowest first: what differs, where it begins, what is pointed at, what is pale."""
        return tuple(each.selectedText() for each in self._marks)

    # ---- places -----------------------------------------------------------------------------------------------------

    @property
    def top_token(self) -> int:
        """The token that the first line in view begins with."""
        margin = int(self.document().documentMargin())
        return self._times.token_at(self._character(self.cursorForPosition(QPoint(margin, 4)).position()))

    def go_to(self, token: int, share: float = 0.0) -> None:
        """Bring a token to this share of the height, from the top on."""
        self._lay_out()
        line = self._line_of(self._times.span(token)[0])
        room = self.viewport().height() / max(1, self.fontMetrics().lineSpacing())
        self._is_moving = True
        self.verticalScrollBar().setValue(max(0, int(line - share * room)))
        self._is_moving = False

    def _lay_out(self) -> None:
        """Have every paragraph know its lines; the field would do it when they come into view."""
        if not self._is_laid_out:
            layout, block = self.document().documentLayout(), self.document().begin()
            while block.isValid():
                layout.blockBoundingRect(block)
                block = block.next()
            self._is_laid_out = True

    def _line_of(self, character: int) -> int:
        place = self._place(character)
        block = self.document().findBlock(place)
        line = block.layout().lineForTextPosition(place - block.position())
        return block.firstLineNumber() + (line.lineNumber() if line.isValid() else 0)

    def _place(self, character: int) -> int:
        most = self.document().characterCount() - 1
        if self._places is None:
            return min(character, most)
        return min(self._places[min(character, len(self._places) - 1)], most)

    def _character(self, place: int) -> int:
        if self._places is None:
            return place
        least, most = 0, len(self._places) - 1
        while least < most:
            middle = (least + most) // 2
            least, most = (middle + 1, most) if self._places[middle] < place else (least, middle)
        return least

    # ---- events -----------------------------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Lines break elsewhere."""
        super().resizeEvent(event)
        self._is_laid_out = False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Tell which token the mouse is at."""
        super().mouseMoveEvent(event)
        self._tell(self.cursorForPosition(event.position().toPoint()))

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """No token any more."""
        super().leaveEvent(event)
        self.pointed.emit(-1)

    def _on_cursor(self) -> None:
        if self.hasFocus():
            self._tell(self.textCursor())

    def _tell(self, cursor: QTextCursor) -> None:
        self.pointed.emit(self._times.token_at(self._character(cursor.position())) if self._times.count else -1)

    def _on_scrolled(self) -> None:
        if not self._is_moving:
            self.scrolled.emit()

    # ---- marks ------------------------------------------------------------------------------------------------------

    def _mark(self) -> None:
        marks, colors = [], self._colors
        self._marks = []
        if self._different is not None:
            begin, end = self._times.span(self._different)
            rest = QTextCharFormat()
            rest.setBackground(QColor(colors.hint_surface if not colors.is_contrast else colors.raised))
            marks.append(self._selection(end, None, rest))
            first = QTextCharFormat()
            first.setBackground(QColor(colors.selection))
            marks.append(self._selection(begin, end, first))
        if self._pointed >= 0 and self._pointed < self._times.count:
            under = QTextCharFormat()
            under.setBackground(QColor(colors.hover))
            under.setFontUnderline(True)
            marks.append(self._selection(*self._times.span(self._pointed), under))
        if self._shown is not None and self._shown < self._times.count:
            pale = QTextCharFormat()
            pale.setForeground(blend(colors.surface, colors.text, _PALE))
            begin = self._times.span(self._shown - 1)[1] if self._shown else self._times.begin
            marks.append(self._selection(begin, None, pale))
        self.setExtraSelections(marks)

    def _selection(self, begin: int, end: int | None, form: QTextCharFormat) -> QTextEdit.ExtraSelection:
        """These characters in this form; to the end of the text, if there is none."""
        cursor = QTextCursor(self.document())
        cursor.setPosition(self._place(begin))
        most = self.document().characterCount() - 1
        cursor.setPosition(most if end is None else self._place(end), QTextCursor.MoveMode.KeepAnchor)
        self._marks.append(cursor)
        made = QTextEdit.ExtraSelection()
        made.cursor, made.format = cursor, form
        return made


def blend(ground: str, ink: str, share: float) -> QColor:
    """A colour between two, so much of it the second one."""
    one, other = QColor(ground), QColor(ink)
    parts = ((one.red(), other.red()), (one.green(), other.green()), (one.blue(), other.blue()))
    return QColor(*(round(first + (second - first) * share) for first, second in parts))


def showable(text: str) -> str:
    """The text with every character in its place, but for those that a field would count otherwise; not too much."""
    text = text.translate(_BREAKS)
    return text if is_writable(text) else text[: prefix_within(text, _MOST_SHOWN)]


def utf16_places(text: str) -> Sequence[int] | None:
    """Where each character, and the end, stands in a field, which counts some as two; None where none is."""
    if text.isascii() or max(text) <= "\uffff":
        return None
    return tuple(accumulate((1 + (letter > "\uffff") for letter in text), initial=0))
