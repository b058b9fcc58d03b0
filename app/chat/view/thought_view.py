"""The thinking of a model: a line that says how long it took, which opens the text."""

import math
from dataclasses import replace

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from app.chat.text.document_style import Look
from app.chat.text.markdown_view import CATCH_UP_MS, WRITING_SECONDS, MarkdownView
from app.chat.text.message_text import MessageText
from app.chat.typesetting.formulas import Formulas
from app.i18n.translation import tr

_INDENT = 14


class ThoughtView(QWidget):
    """Closed at first; the text is laid out when it is opened."""

    built = Signal()
    """It was opened for the first time: there is a `body` now."""

    written = Signal()
    """Some more of the text stands in the `body`."""

    def __init__(self, look: Look, formulas: Formulas | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._look = look
        self._formulas = formulas
        self._thought = ""
        self._is_marked = False
        self.body: MarkdownView | None = None
        self._again = QTimer(self, singleShot=True, interval=CATCH_UP_MS)
        self._again.timeout.connect(self._write)
        self.header = QToolButton(self)
        self.header.setObjectName("thought")
        self.header.setCheckable(True)
        self.header.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.header.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.header.toggled.connect(self._on_toggled)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(6)
        self._column.addWidget(self.header)

    def show_thought(self, thought: str, is_thinking: bool, seconds: float) -> None:
        """Show what was thought so far; `seconds` 0: not measured."""
        words = tr("Thinking…") if is_thinking else tr("Thought")
        if seconds:
            words = tr("Thinking for {time}…") if is_thinking else tr("Thought for {time}")
        self.header.setText(words.format(time=_duration(seconds)))
        self.header.setAccessibleName(self.header.text())
        self._show_state(self.header.isChecked())
        self._thought = thought
        self._write()

    @property
    def is_open(self) -> bool:
        """Whether the text is shown."""
        return self.header.isChecked()

    def open(self) -> None:
        """Show the text."""
        self.header.setChecked(True)
        if self.body is not None:
            self.body.work()
            self.written.emit()

    def set_marked(self, is_marked: bool) -> None:
        """Whether what is marked stands in here: as long as it is closed, the line says so."""
        self._is_marked = is_marked
        is_told = is_marked and not self.is_open
        if is_told != bool(self.header.property("marked")):
            self.header.setProperty("marked", is_told)
            self.header.style().unpolish(self.header)
            self.header.style().polish(self.header)

    @property
    def text(self) -> MessageText | None:
        """The first part of the thinking that is shown; None before it was opened."""
        return self.body.texts[0] if self.body is not None else None

    def set_look(self, look: Look) -> None:
        """Show it in another way."""
        self._look = look
        if self.body is not None:
            self.body.set_look(_muted(look))
            self._write()

    def show_part(self, top: int, bottom: int) -> None:
        """Know what can be seen of this widget, in pixels; the heights can lie outside of it."""
        if self.body is not None:
            self.body.show_part(top - self.body.y(), bottom - self.body.y())
            self._write()

    def take_shift(self) -> int:
        """By how many pixels what the reader sees of the thinking has moved since the last time."""
        return self.body.take_shift() if self.body is not None else 0

    def _on_toggled(self, is_open: bool) -> None:
        self._show_state(is_open)
        if is_open and self.body is None:
            self._build()
        if self.body is not None:
            self.body.setVisible(is_open)
        self.set_marked(self._is_marked)
        self._write()

    def _show_state(self, is_open: bool) -> None:
        closed = Qt.ArrowType.LeftArrow if self.isRightToLeft() else Qt.ArrowType.RightArrow
        self.header.setArrowType(Qt.ArrowType.DownArrow if is_open else closed)
        self.header.setToolTip(tr("Hide the thinking") if is_open else tr("Show the thinking"))

    def _build(self) -> None:
        self.body = MarkdownView(_muted(self._look), self._formulas, self, "thought-text")
        self.body.fell_behind.connect(self._again.start)
        self.body.name(tr("Thinking"))
        self._take_keys(self.body.texts[0])
        self.body.section_added.connect(lambda shown: self._take_keys(shown.text))
        row = QHBoxLayout()
        row.setContentsMargins(_INDENT, 0, 0, 4)
        row.addWidget(self.body)
        self._column.addLayout(row)
        self.built.emit()

    def _take_keys(self, text: MessageText) -> None:
        """What is selected here has nothing to do with other messages."""
        assert self.body is not None, "its text is there"
        text.select_all_requested.connect(self.body.selected.select_all)
        text.copy_requested.connect(self._copy)

    def _copy(self) -> None:
        if self.body is not None and self.body.selection:
            QGuiApplication.clipboard().setText(self.body.selection)

    def _write(self) -> None:
        if self.body is None or not self.header.isChecked():
            return
        self.body.show_text(self._thought)
        if self.body.is_behind:
            self.body.work(WRITING_SECONDS)
            self.written.emit()
        if self.body.is_behind:
            self._again.start()


def _muted(look: Look) -> Look:
    """Thinking is not what was asked for: it stands back."""
    return replace(look, colors=replace(look.colors, text=look.colors.muted))


def _duration(seconds: float) -> str:
    whole = math.ceil(seconds)
    if whole < 60:
        return tr("{seconds} s").format(seconds=whole)
    return tr("{minutes} min {seconds} s").format(minutes=whole // 60, seconds=whole % 60)
