"""The thinking of a model: one quiet line that says how long it took, and the text behind it for those who ask."""

import math
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from app.chat.document import MarkdownDocument
from app.chat.formulas import Formulas
from app.chat.look import Look
from app.chat.message_text import MessageText
from app.theme import Colors

_INDENT = 14


class ThoughtView(QWidget):
    """Closed at first; the text is written only when it is opened."""

    def __init__(self, look: Look, formulas: Formulas | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._look = look
        self._formulas = formulas
        self._thought = ""
        self.text: MessageText | None = None
        self._markdown: MarkdownDocument | None = None
        self.header = QToolButton(self)
        self.header.setObjectName("thought")
        self.header.setCheckable(True)
        self.header.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.header.setArrowType(Qt.ArrowType.RightArrow)
        self.header.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.header.toggled.connect(self._on_toggled)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(6)
        self._column.addWidget(self.header)

    def show_thought(self, thought: str, is_thinking: bool, seconds: float) -> None:
        """Show what was thought so far; `seconds` 0 means that nobody took the time."""
        took = f" for {_duration(seconds)}" if seconds else ""
        self.header.setText(f"Thinking{took}…" if is_thinking else f"Thought{took}")
        self.header.setAccessibleName(self.header.text())
        self.header.setToolTip("Hide the thinking" if self.header.isChecked() else "Show the thinking")
        self._thought = thought
        self._write()

    def set_look(self, look: Look) -> None:
        """Show it in another way."""
        self._look = look
        if self.text is not None and self._markdown is not None:
            self.text.set_zoom(look.zoom)
            self._markdown.set_theme(_muted(look))

    def _on_toggled(self, is_open: bool) -> None:
        self.header.setArrowType(Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow)
        self.header.setToolTip("Hide the thinking" if is_open else "Show the thinking")
        if is_open and self.text is None:
            self._build()
        if self.text is not None:
            self.text.setVisible(is_open)
        self._write()

    def _build(self) -> None:
        self.text = MessageText(self)
        self.text.setObjectName("thought-text")
        self.text.setAccessibleName("Thinking")
        self.text.set_zoom(self._look.zoom)
        self._markdown = MarkdownDocument(self.text.document(), _muted(self._look), self._formulas)
        self.text.follow(self._markdown)
        row = QHBoxLayout()
        row.setContentsMargins(_INDENT, 0, 0, 4)
        row.addWidget(self.text)
        self._column.addLayout(row)

    def _write(self) -> None:
        if self._markdown is None or not self.header.isChecked():
            return
        if not self._thought.startswith(self._markdown.text):
            self._markdown.clear()
        self._markdown.append(self._thought[len(self._markdown.text) :])


def _muted(look: Look) -> Colors:
    """Thinking is not what was asked for: it stands back."""
    return replace(look.colors, text=look.colors.muted)


def _duration(seconds: float) -> str:
    whole = math.ceil(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
