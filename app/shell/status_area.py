"""The line at the bottom: what the engine is doing, in words, and a way out of a long load."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QPushButton, QWidget

from app.engine.state import EngineState, Phase
from app.i18n.translation import tr

_BAR_WIDTH = 120


class StatusArea(QWidget):
    """Shows the engine's state; while it loads, its progress and a button that cancels it."""

    cancel_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = EngineState()
        self._answering = False
        self._dot = QLabel(self)
        self._dot.setObjectName("dot")
        self.words = QLabel(self)
        self.words.setObjectName("status")
        self.words.setAccessibleName(tr("Engine state"))
        self.progress = QProgressBar(self)
        self.progress.setTextVisible(False)
        self.progress.setFixedWidth(_BAR_WIDTH)
        self.progress.setAccessibleName(tr("Loading progress"))
        self.cancel = QPushButton(tr("Cancel"), self)
        self.cancel.setObjectName("small")
        self.cancel.setAccessibleName(tr("Cancel loading"))
        self.cancel.clicked.connect(self.cancel_requested)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 3, 8, 3)
        row.setSpacing(8)
        for widget in (self._dot, self.words, self.progress, self.cancel):
            row.addWidget(widget)
        row.addStretch(1)
        self._show()

    def show_engine_state(self, state: EngineState) -> None:
        """Show what the engine does."""
        self._state = state
        self._show()

    def show_answering(self, answering: bool) -> None:
        """Show whether a question is being answered."""
        self._answering = answering
        self._show()

    def _show(self) -> None:
        state = self._state
        loading = state.phase is Phase.LOADING
        self.words.setText(tr("Answering") if self._answering and state.ready else state.words)
        self.progress.setVisible(loading)
        self.progress.setRange(0, state.total)  # an empty range shows that something goes on
        self.progress.setValue(state.done)
        self.cancel.setVisible(loading)
        self._dot.setProperty("phase", "answering" if self._answering and state.ready else state.phase.value)
        self._dot.style().unpolish(self._dot)
        self._dot.style().polish(self._dot)
