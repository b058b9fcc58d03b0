"""The last page: the engine is there; what to do first."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.ui.widgets import label, make_room


class ReadyPage(QWidget):
    """`try_requested` wants an answer of the embedded model, `models_requested` a model for this computer."""

    try_requested = Signal()
    models_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = label("option-title", tr("The engine is ready."), self)
        self.try_ = QPushButton(tr("&Try the embedded model now"), self)
        self.models = QPushButton(tr("&Choose a model for this computer…"), self)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(10)
        column.addWidget(self.title)
        self._add(
            column, self.try_, tr("Tiny, already here, often wrong: it shows within seconds how everything works.")
        )
        self._add(
            column,
            self.models,
            tr("Coppice proposes models that this computer can run, also ones bigger than its GPU."),
        )
        column.addStretch(1)
        make_room(self.try_, self.models)
        self.try_.clicked.connect(self.try_requested)
        self.models.clicked.connect(self.models_requested)

    def show_engine(self, misses_card: bool) -> None:
        """Say so where the card is not used after all."""
        words = tr("The engine is ready.")
        if misses_card:
            words = tr(
                "The engine works, but does not find the graphics card: the processor computes. "
                "Check the card's driver, then repair the engine in Preferences."
            )
        self.title.setText(words)

    def _add(self, column: QVBoxLayout, button: QPushButton, about: str) -> None:
        button.setAccessibleDescription(about)
        column.addSpacing(8)
        column.addWidget(button, 0, Qt.AlignmentFlag.AlignLeading)
        column.addWidget(label("quiet-text", about, self))
