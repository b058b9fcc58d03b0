"""How full the context is: a short bar and its numbers."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QSizePolicy, QWidget

from app.chat.context.use import ContextUse
from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.system.plain_text import tip

_WIDTH = 40
_LEAST_WORDS = 88  # pixels; "1,200 of 4,096 tokens" on two lines
_STEPS = 1000


class ContextMeter(QWidget):
    """Shows a `ContextUse`; from the moment the answer might find no room, it says so."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.bar = QProgressBar(self)
        self.bar.setObjectName("context")
        self.bar.setTextVisible(False)
        self.bar.setRange(0, _STEPS)
        self.bar.setFixedWidth(_WIDTH)
        self.bar.setAccessibleName(tr("Context used"))
        self.words = QLabel(self)
        self.words.setObjectName("figure")
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setWordWrap(True)  # a narrow window must not hide what is about to happen
        self.words.setMinimumWidth(_LEAST_WORDS)
        self.words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.words.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.words, 1)
        row.addWidget(self.bar)
        self.show_use(ContextUse())

    def show_use(self, use: ContextUse) -> None:
        """Show how much is taken; nothing without a model."""
        self.words.setText(use.words)
        self.words.setAccessibleName(tr("Context: {words}").format(words=use.words))
        self.bar.setValue(round(use.share * _STEPS))
        words = tr(
            "What the model reads of this chat, the message above included, has {tokens:,} tokens.\n"
            "Its context holds {context_tokens:,}; {room:,} of them are kept free for the answer."
        )
        room = Number(use.room)
        self.setToolTip(
            tip(words.format(tokens=Number(use.tokens), context_tokens=Number(use.context_tokens), room=room))
        )
        tone = "error" if use.is_full else "warning" if use.is_scarce else ""
        for widget in (self.words, self.bar):
            widget.setProperty("tone", tone)
            widget.style().unpolish(widget)
            widget.style().polish(widget)
        self.setVisible(bool(use.context_tokens))
