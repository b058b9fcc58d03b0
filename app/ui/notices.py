"""Bars that tell of something that went wrong or can be undone: stacked, dismissible, never in the way."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.system.plain_text import unsteered
from app.ui.flow_layout import flow_of
from app.ui.widgets import announce, copy_text


class Tone(Enum):
    """How grave a notice is; also the name that the style sheet knows it by."""

    HINT = "hint"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Notice:
    """One bar. A new one replaces the one with the same `key`.

    `action` is the text of its button, if it has one, and `on_action` what the button does.
    """

    key: str
    message: str
    hint: str = ""
    action: str = ""
    tone: Tone = Tone.ERROR
    on_action: Callable[[], object] | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """Everything it says, for the clipboard."""
        return f"{self.message} {self.hint}".rstrip()


class NoticeBar(QFrame):
    """The bar of one notice."""

    dismissed = Signal(str)
    action_requested = Signal(str)
    diagnostics_requested = Signal()

    def __init__(self, notice: Notice, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.notice = notice = _in_our_language(notice)
        self.setObjectName("notice")
        self.setProperty("tone", notice.tone.value)
        self.setAccessibleName(notice.text)
        self._label = self._words()
        self._buttons = flow_of(self._actions(notice), 8, self)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._row.setSpacing(8)
        self._row.addWidget(self._label, 1)
        self._row.addWidget(self._buttons)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 8, 8, 8)
        row.setSpacing(8)
        row.addLayout(self._row, 1)
        row.addWidget(self._closer())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Where the buttons would leave little room for the words, they go below them."""
        super().resizeEvent(event)
        narrow, direction = self.width() < 2 * self._buttons.sizeHint().width(), QBoxLayout.Direction
        self._row.setDirection(direction.TopToBottom if narrow else direction.LeftToRight)
        middle = Qt.AlignmentFlag.AlignVCenter
        self._row.setAlignment(self._buttons, Qt.AlignmentFlag(0) if narrow else middle)  # below, they may take lines

    def _actions(self, notice: Notice) -> Iterator[QPushButton]:
        if notice.action:
            yield self._button(notice.action, lambda: self.action_requested.emit(notice.key))
        if notice.tone is Tone.ERROR:
            copy: QPushButton = self._button(tr("Copy"), lambda: copy_text(notice.text, copy))
            yield copy
            yield self._button(tr("Copy diagnostics"), self.diagnostics_requested.emit)

    def takes(self, notice: Notice) -> bool:
        """Say these words from now on, if nothing else of the bar changes, so that its button stays under the mouse."""
        if not notice.action or (notice.action, notice.tone) != (self.notice.action, Tone.HINT):
            return False
        self.notice = _in_our_language(notice)
        self._label.setText(unsteered(self.notice.text))
        self.setAccessibleName(self.notice.text)
        return True

    def _words(self) -> QLabel:
        words = QLabel(unsteered(self.notice.text), self)
        words.setTextFormat(Qt.TextFormat.PlainText)
        words.setWordWrap(True)
        words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        return words

    def _button(self, text: str, action: object) -> QPushButton:
        button = QPushButton(text, self)
        button.setAccessibleName(f"{text}: {self.notice.message}")
        button.clicked.connect(action)
        return button

    def _closer(self) -> QToolButton:
        closer = QToolButton(self)
        closer.setText("×")
        closer.setObjectName("dismiss")
        closer.setToolTip(tr("Dismiss"))
        closer.setAccessibleName(tr("Dismiss this notice"))
        closer.clicked.connect(lambda: self.dismissed.emit(self.notice.key))
        return closer


def _in_our_language(notice: Notice) -> Notice:
    return replace(notice, message=translated(notice.message), hint=translated(notice.hint))


class NoticeStack(QWidget):
    """The bars that are shown now, the newest at the bottom; takes no room when there is none.

    `heir` gets the focus of a bar that goes: what is typed next must not land in any other field.
    """

    diagnostics_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.heir: QWidget | None = None
        self._bars: dict[str, NoticeBar] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(6)
        self.hide()

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What is shown, the oldest first."""
        return tuple(bar.notice for bar in self._bars.values())

    def add(self, notice: Notice) -> None:
        """Show and say a notice in place of the one with its key; where only its words change, its button stays."""
        shown = self._bars.get(notice.key)
        if shown is not None and shown.takes(notice):
            return
        self.dismiss(notice.key)
        bar = NoticeBar(notice, self)
        bar.dismissed.connect(self.dismiss)
        bar.action_requested.connect(self.act)
        bar.diagnostics_requested.connect(self.diagnostics_requested)
        self._bars[notice.key] = bar
        self._column.addWidget(bar)
        self.show()
        announce(bar, bar.notice.text)

    def dismiss(self, key: str) -> None:
        """Take a notice away; nothing happens when there is none."""
        bar = self._bars.pop(key, None)
        if bar is not None:
            if self.heir is not None and bar.isAncestorOf(QApplication.focusWidget() or self):
                self.heir.setFocus()
            bar.hide()
            bar.deleteLater()
        self.setVisible(bool(self._bars))

    def act(self, key: str) -> None:
        """Take a notice away and do what its button is for."""
        bar = self._bars.get(key)
        self.dismiss(key)
        if bar is not None and bar.notice.on_action is not None:
            bar.notice.on_action()
