"""What an empty chat shows: what this is, and a few questions to begin with."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.chat.view.conversation_view import COLUMN_WIDTH
from app.engine.state import EngineState
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.ui.theme import application_icon
from app.ui.widgets import label, page_body, row_of
from engine.protocol.options import EMBEDDED

EXAMPLES = (
    "Tell me a story about a dragon.",
    "What is the capital of France?",
    "List five fruits.",
    "Explain speculative decoding.",
)

_DEMO = mark(
    "The embedded demo is a tiny model: it chats a little and tells short stories, and it is often wrong. "
    "Load your own in Models (Ctrl+M)."
)
_OWN = mark("A draft model guesses ahead, the target checks its guesses. Ctrl+T shows them as a tree.")
_ICON_SIZE = 72
_TALL = 400  # pixels: there is room for the picture
_AROUND = 80  # pixels: what stands beside and between the examples
_LEAST_EXAMPLE = 100  # pixels: two of them must not keep a window from growing narrow enough for one


class Welcome(QScrollArea):
    """The empty chat; an example that is clicked is asked."""

    example_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        body = page_body(self)
        self._about = label("welcome-about", tr(_DEMO), self)
        self.examples = [self._example(text) for text in EXAMPLES]
        title = label("welcome-title", tr("What shall we talk about?"), self)
        for words in (title, self._about):
            words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._picture = QLabel(self)
        self._picture.setPixmap(application_icon().pixmap(_ICON_SIZE, _ICON_SIZE))
        self._picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._pairs = [row_of(self.examples[first : first + 2], 10) for first in (0, 2)]
        inner = QWidget(self)
        inner.setMaximumWidth(COLUMN_WIDTH - 120)
        column = QVBoxLayout(inner)
        column.setSpacing(10)
        column.addWidget(self._picture)
        column.addWidget(title)
        column.addWidget(self._about)
        column.addSpacing(18)
        for pair in self._pairs:
            column.addLayout(pair)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(inner, 1000)
        row.addStretch(1)
        outer = QVBoxLayout(body)
        outer.setContentsMargins(24, 12, 24, 12)
        outer.addStretch(2)
        outer.addLayout(row)
        outer.addStretch(3)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Where two examples have no room beside each other, they stand below each other; a picture needs room, too."""
        super().resizeEvent(event)
        needed = max(each.sizeHint().width() for each in self.examples)
        narrow, direction = self.width() < 2 * needed + _AROUND, QBoxLayout.Direction
        for pair in self._pairs:
            pair.setDirection(direction.TopToBottom if narrow else direction.LeftToRight)
        self._picture.setVisible(self.height() >= _TALL)

    def expect(self, target: str) -> None:
        """Be honest about the model that is to be loaded, as long as none is."""
        self._about.setText(tr(_DEMO if target == EMBEDDED else _OWN))

    def show_engine_state(self, state: EngineState) -> None:
        """Be honest about the model that would answer."""
        if state.host and state.ready:
            self._about.setText(tr("{answerer} answers.").format(answerer=state.answerer))
        elif state.pair is not None:
            self.expect(state.pair.target.source)

    def _example(self, text: str) -> QPushButton:
        button = QPushButton(text, self)
        button.setObjectName("example")
        button.setMinimumWidth(_LEAST_EXAMPLE)
        button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        button.setAccessibleName(tr("Ask: {text}").format(text=text))
        button.clicked.connect(lambda: self.example_chosen.emit(text))
        return button
