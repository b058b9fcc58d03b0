"""Small widgets of the tree panel.

The window shows the message before the panel is made, so nothing heavy is imported here.
"""

from collections.abc import Callable, Mapping

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QColor, QKeySequence, QPalette, QShortcut
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QWidget

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip
from app.ui.colors import TreeColors

EMPTY = mark("The speculation tree appears here while an answer is written.")


def message_label(words: str, parent: QWidget | None = None) -> QLabel:
    """In the middle of the place that the tree has."""
    label = QLabel(words, parent)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    label.setMargin(24)
    return label


def tool_button(text: str, help_: str, parent: QWidget, *, checkable: bool = False) -> QToolButton:
    """A flat button whose tooltip says what it does, and by which key."""
    button = QToolButton(parent)
    button.setText(text)
    button.setToolTip(tip(help_))
    button.setAutoRaise(True)
    button.setCheckable(checkable)
    return button


def bind(keys: Mapping[str, Callable[[], object]], widget: QWidget) -> None:
    """Let every key do its work while the widget, or something in it, has the focus."""
    for key, work in keys.items():
        shortcut = QShortcut(QKeySequence(key), widget)
        shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        shortcut.activated.connect(work)


def tint(widget: QWidget, colors: TreeColors) -> None:
    """Change the colours of a widget and of what is in it."""
    palette = QPalette(widget.palette())
    for role in (QPalette.ColorRole.Window, QPalette.ColorRole.Button):
        palette.setColor(role, QColor(colors.background))
    for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.ButtonText):
        palette.setColor(role, QColor(colors.text))
    widget.setPalette(palette)


def line_of_words(widget: QWidget, button: QToolButton, *margins: int) -> QLabel:
    """Fill a widget with words, in as many lines as they need, and a button at their end; returns the words."""
    words = QLabel(widget)
    words.setTextFormat(Qt.TextFormat.PlainText)
    words.setWordWrap(True)
    row = QHBoxLayout(widget)
    row.setContentsMargins(*margins)
    row.setSpacing(8)
    row.addWidget(words, 1)
    row.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
    return words


_LEAST_MS, _LETTER_MS = 6000, 90  # that they stay: time to notice them, and to read them slowly


class News(QWidget):
    """As many lines as they need; they go by themselves, or when they are closed. Hidden without any."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.close_ = tool_button("✕", tr("Close"), self)
        self.close_.setAccessibleName(tr("Close"))
        self.close_.clicked.connect(self.hide)
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self.hide)
        self.words = line_of_words(self, self.close_, 0, 0, 0, 0)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.hide()

    def tell(self, text: str) -> None:
        """Show these words in place of others."""
        self.words.setText(text)
        self.show()
        self._timer.start(_LEAST_MS + _LETTER_MS * len(text))
