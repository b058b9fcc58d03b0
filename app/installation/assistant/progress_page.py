"""The second page: how far it is, and what keeps it from going on."""

from PySide6.QtWidgets import QProgressBar, QVBoxLayout, QWidget

from app.i18n.known_sentences import translated
from app.i18n.translation import tr
from app.installation.assistant.words import detail_text, stage_text
from app.installation.runtime.progress import Progress
from app.ui.widgets import label

_STEPS = 1000


class ProgressPage(QWidget):
    """Shows one `Progress`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.is_stopping = False
        self.stage = label("option-title", "", self)
        self.bar = QProgressBar(self)
        self.bar.setRange(0, _STEPS)
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(tr("How much of the engine is installed"))
        self.detail = label("quiet-text", "", self)
        self.error = label("error", "", self)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(10)
        words = tr("This window may be closed: the installation goes on behind it.")
        self.closable = label("quiet-text", words, self)
        for widget in (self.stage, self.bar, self.detail, self.error, self.closable):
            column.addWidget(widget)
        column.addStretch(1)

    def show_progress(self, progress: Progress) -> None:
        """What is being done, and what went wrong."""
        is_running = progress.stage.is_running
        self.is_stopping = self.is_stopping and is_running
        self.bar.setValue(max(round(progress.fraction * _STEPS), self._kept(progress)))
        words = tr("Stopping…") if self.is_stopping else stage_text(progress.stage)
        percent = f" {self.bar.value() * 100 // _STEPS} %" if is_running else ""
        self.stage.setText(words + percent)
        self.closable.setVisible(is_running)
        self.detail.setText(detail_text(progress))
        words = translated(f"{progress.message} {progress.hint}".strip())
        self.error.setText(words)
        self.error.setVisible(bool(words))

    def show_stopping(self) -> None:
        """It was asked to stop, and takes away what is half unpacked."""
        self.is_stopping = True
        self.stage.setText(tr("Stopping…"))

    def _kept(self, progress: Progress) -> int:
        """A pause or a failure does not empty the bar: what has arrived is kept."""
        return 0 if progress.stage.is_running else self.bar.value()
