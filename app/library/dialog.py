"""The Models dialog: which pair to load, and what came of it."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QFormLayout, QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.engine_state import EngineState, Phase, describe_pair
from app.labels import label
from app.library.source_field import SourceField
from engine.messages import Failed
from engine.options import EMBEDDED, NO_DRAFT, LoadOptions

_WIDTH = 540
_ABOUT = (
    "The target writes the answer; the draft, a small model with the same tokenizer, guesses ahead for it. "
    "Folders hold config.json, tokenizer files and safetensors."
)


class ModelsDialog(QDialog):
    """Stays open while a pair loads, so that a wrong path can be put right; closes when it is loaded."""

    load_requested = Signal(LoadOptions)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._asked = False
        self.setWindowTitle("Models")
        self.setMinimumWidth(_WIDTH)
        self.target = SourceField("Target", (("Embedded demo", EMBEDDED),), self)
        drafts = (("Automatic", "auto"), ("Embedded demo", EMBEDDED), ("None (no speculation)", NO_DRAFT))
        self.draft = SourceField("Draft", drafts, self)
        self.state = label("quiet-text", "", self)
        self.error = label("error", "", self)
        self.progress = QProgressBar(self, textVisible=False)
        self.load = QPushButton("Load", self)
        self.load.setDefault(True)
        self.close_button = QPushButton("Close", self)
        self._lay_out()
        self.target.edited.connect(self._on_edited)
        self.draft.edited.connect(self._on_edited)
        self.load.clicked.connect(self._on_load)
        self.close_button.clicked.connect(self.reject)

    def _lay_out(self) -> None:
        about = label("quiet-text", _ABOUT, self)
        form = QFormLayout()
        form.setHorizontalSpacing(18)
        form.setVerticalSpacing(14)
        form.addRow("Target", self.target)
        form.addRow("Draft", self.draft)
        buttons = QHBoxLayout()
        buttons.addWidget(self.state, 1)
        buttons.addWidget(self.close_button)
        buttons.addWidget(self.load)
        column = QVBoxLayout(self)
        column.setContentsMargins(22, 20, 22, 18)
        column.setSpacing(14)
        column.addWidget(about)
        column.addLayout(form)
        column.addWidget(self.error)
        column.addWidget(self.progress)
        column.addStretch(1)
        column.addLayout(buttons)
        self.error.hide()
        self.progress.hide()

    def show_pair(self, wanted: LoadOptions) -> None:
        """Fill the fields with the pair that is loaded, or is to be."""
        self.target.show_source(wanted.target)
        self.draft.show_source(wanted.draft)
        self._show_error("")

    def show_engine_state(self, state: EngineState) -> None:
        """Follow the load."""
        loading = state.phase is Phase.LOADING
        self.progress.setVisible(loading)
        self.progress.setRange(0, state.total)
        self.progress.setValue(state.done)
        self.state.setText(f"Loaded: {describe_pair(state.pair)}" if state.ready and state.pair else state.words)

    def on_pair_loaded(self) -> None:
        """What was asked for is there: nothing is left to do here."""
        if self._asked:
            self._asked = False
            self.accept()

    def on_load_failed(self, failed: Failed) -> None:
        """Say why, above the button that tries again."""
        self._asked = False
        self._show_error(f"{failed.message} {failed.hint}".rstrip())

    def _on_load(self) -> None:
        self._show_error("")
        self._asked = True
        self.load_requested.emit(LoadOptions(target=self.target.source, draft=self.draft.source))

    def _on_edited(self) -> None:
        self.load.setEnabled(bool(self.target.source and self.draft.source))
        self._fit()

    def _show_error(self, text: str) -> None:
        self.error.setText(text)
        self.error.setVisible(bool(text))
        self._fit()

    def _fit(self) -> None:
        """Give every row the height it needs, now that there are more or fewer of them."""
        width = self.width()
        self.adjustSize()
        self.resize(max(width, self.minimumWidth()), self.height())
