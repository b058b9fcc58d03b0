"""Where a person writes: a field that grows with its text, and the button that sends or stops."""

import math

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QSizePolicy, QToolButton, QWidget

from app.theme import Colors, icon, reading_font

_MOST_LINES = 8
_BUTTON_SIZE = 34


class QuestionField(QPlainTextEdit):
    """A field as tall as its text, up to some lines. Enter submits, Shift+Enter begins a new line."""

    submitted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFont(reading_font())
        self.setAccessibleName("Message")
        self.setPlaceholderText("Ask something")
        self.setTabChangesFocus(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Send on Enter; every other key writes."""
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.submitted.emit()
            return
        super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Another width, another number of lines."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """The height of a plain text document is in lines."""
        lines = max(1, round(self.document().size().height()))
        shown = min(lines, _MOST_LINES)
        scroll = Qt.ScrollBarPolicy.ScrollBarAsNeeded if lines > shown else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.setVerticalScrollBarPolicy(scroll)
        text = math.ceil(shown * QFontMetricsF(self.font()).lineSpacing() + 2 * self.document().documentMargin())
        self.setFixedHeight(text + 2 * self.frameWidth())


class Composer(QFrame):
    """The field with its button. `sent` carries the question; the field is emptied when it was taken."""

    sent = Signal(str)
    stop_requested = Signal()

    def __init__(self, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("composer")
        self._answering = False
        self._can_ask = True
        self.field = QuestionField(self)
        self.button = QToolButton(self)
        self.button.setObjectName("send")
        self.button.setFixedSize(QSize(_BUTTON_SIZE, _BUTTON_SIZE))
        self.button.setIconSize(QSize(20, 20))
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 8, 8, 8)
        row.setSpacing(8)
        row.addWidget(self.field, 1, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        self.setFocusProxy(self.field)
        self.field.submitted.connect(self._send)
        self.field.textChanged.connect(self._show_button)
        self.button.clicked.connect(self._on_clicked)
        self.set_theme(colors)

    def set_answering(self, answering: bool) -> None:
        """While an answer is under way the button stops it; writing goes on."""
        self._answering = answering
        self._show_button()

    def set_can_ask(self, can_ask: bool) -> None:
        """Without an engine or a model there is nobody to ask."""
        self._can_ask = can_ask
        self._show_button()

    def set_theme(self, colors: Colors) -> None:
        """Draw the button in other colours."""
        self._colors = colors
        self._show_button()

    def _on_clicked(self) -> None:
        if self._answering:
            self.stop_requested.emit()
        else:
            self._send()

    def _send(self) -> None:
        text = self.field.toPlainText().strip()
        if text and self._can_ask and not self._answering:
            self.field.clear()
            self.sent.emit(text)

    def _show_button(self) -> None:
        has_text = bool(self.field.toPlainText().strip())
        self.button.setEnabled(self._answering or (has_text and self._can_ask))
        name = "Stop (Esc)" if self._answering else "Send (Enter)"
        if not (self._answering or self._can_ask):
            name = "There is no model to ask"
        self.button.setToolTip(name)
        self.button.setAccessibleName("Stop" if self._answering else "Send")
        color = self._colors.on_accent if self.button.isEnabled() else self._colors.muted
        self.button.setIcon(icon("stop" if self._answering else "send", color))
