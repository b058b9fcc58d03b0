"""What frames the pages of the Models dialog: their order, and the line at the bottom."""

from enum import IntEnum

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QProgressBar, QPushButton, QWidget

from app.engine.state import EngineState, Phase
from app.i18n.translation import tr
from app.system.plain_text import tip
from app.ui.widgets import CutLabel, fill, row_of


class Page(IntEnum):
    """In the order of their tabs."""

    DISCOVER = 0
    MODELS = 1
    DOWNLOADS = 2
    ENGINES = 3


class LoadStrip(QWidget):
    """Words, a bar while a pair loads, and buttons."""

    cancel_requested = Signal()
    close_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.words = CutLabel(self)
        self.words.setObjectName("quiet-text")
        self.words.setAccessibleName(tr("Engine state"))
        self.progress = QProgressBar(self, textVisible=False)
        self.progress.setFixedWidth(220)
        self.progress.setAccessibleName(tr("Loading progress"))
        self.cancel = QPushButton(tr("Cancel loading"), self, autoDefault=False)
        self.close_ = QPushButton(tr("Close"), self, autoDefault=False)
        row = row_of((self.words, self.progress, self.cancel, self.close_), 12, wide=self.words)
        fill(self, (row,), 0, 18, 8, 18, 10)
        self.cancel.clicked.connect(self.cancel_requested)
        self.close_.clicked.connect(self.close_requested)
        self.show_engine_state(EngineState())

    def show_engine_state(self, state: EngineState) -> None:
        """Follow the engine."""
        loading = state.phase is Phase.LOADING
        self.progress.setVisible(loading)
        self.cancel.setVisible(loading)
        self.progress.setRange(0, state.total)
        self.progress.setValue(state.done)
        self.words.setText(
            tr("Loaded: {pair}").format(pair=state.described_pair)
            if state.ready and state.pair and not state.host
            else state.words
        )
        self.words.setToolTip(tip(self.words.text()))
