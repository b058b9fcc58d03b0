"""The page for when something is wrong: the log, and back to the beginning."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QMessageBox, QPushButton, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.preferences.page import OptionsPage
from app.preferences.places import PlaceRow
from app.settings.preferences import ADVANCED
from app.system.paths import Folders
from app.ui.widgets import label


class AdvancedPage(OptionsPage):
    """`reset_requested` comes when a person has confirmed that every option is to be as it was in the beginning."""

    reset_requested = Signal()

    def __init__(self, folders: Folders, parent: QWidget | None = None) -> None:
        super().__init__(ADVANCED, tr("Advanced"), parent)
        title, about = tr("Log folder"), tr("What the window and the engine had to report.")
        self.logs = PlaceRow(title, about, folders.logs, self)
        self.add(self.logs, f"{title} {about}")
        words = tr("Every option on every page goes back to its default. Chats, models and the token stay.")
        box = QWidget(self)
        self.reset = QPushButton(tr("Reset all options…"), box)
        column = QVBoxLayout(box)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(label("quiet-text", words, box))
        column.addWidget(self.reset)
        column.setAlignment(self.reset, Qt.AlignmentFlag.AlignLeading)
        self.add(box, f"{self.reset.text()} {words}")
        self.question = self._build_question(words)
        self.reset.clicked.connect(self.question.open)

    def _build_question(self, words: str) -> QMessageBox:
        question = QMessageBox(self)
        question.setIcon(QMessageBox.Icon.Warning)
        question.setWindowTitle(tr("Reset all options"))
        question.setText(tr("Reset all options?"))
        question.setInformativeText(words)
        question.addButton(QMessageBox.StandardButton.Cancel)
        self.confirm = question.addButton(tr("Reset"), QMessageBox.ButtonRole.DestructiveRole)
        question.setDefaultButton(QMessageBox.StandardButton.Cancel)
        question.setEscapeButton(QMessageBox.StandardButton.Cancel)
        self.confirm.clicked.connect(self.reset_requested)
        return question
