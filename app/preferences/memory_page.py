"""The page of memory: where layers go, and what is kept on disk of what chats have read."""

from typing import Protocol

from PySide6.QtCore import Qt, SignalInstance
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QMessageBox, QPushButton, QWidget

from app.i18n.number_text import size_text
from app.i18n.translation import tr
from app.preferences.page import OptionsPage
from app.settings.preferences import MEMORY
from app.ui.widgets import fill, label, offer


class KeptController(Protocol):
    """Knows what is kept, and deletes it; `measured` tells how many bytes it takes."""

    measured: SignalInstance

    def measure(self) -> None:
        """Have `measured` tell."""

    def forget_all(self) -> None:
        """Delete all of it; `measured` tells what is left."""


class KeptBox(QWidget):
    """How much is kept, and a button that deletes it at once: OK and Cancel do not concern it."""

    def __init__(self, controller: KeptController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.taken = label("", tr("Looking at what is kept…"), self)
        self.delete = QPushButton(tr("Delete now…"), self)
        self.delete.setAccessibleName(tr("Delete what is kept of all chats"))
        fill(self, (self.taken, self.delete), 8)
        layout = self.layout()
        assert layout is not None, "it was filled"
        layout.setAlignment(self.delete, Qt.AlignmentFlag.AlignLeading)
        offer(self.delete, self.delete.accessibleName(), self.taken.text())
        self.question = self._build_question()
        self.delete.clicked.connect(self.question.open)
        self.confirm.clicked.connect(controller.forget_all)
        controller.measured.connect(self._show)

    def _build_question(self) -> QMessageBox:
        question = QMessageBox(self)
        question.setIcon(QMessageBox.Icon.Warning)
        question.setWindowTitle(tr("Delete what is kept"))
        question.setText(tr("Delete what is kept of all chats?"))
        question.setInformativeText(
            tr("The chats stay. The next answer in each of them begins later: the model reads the chat again first.")
        )
        question.addButton(QMessageBox.StandardButton.Cancel)
        self.confirm = question.addButton(tr("Delete"), QMessageBox.ButtonRole.DestructiveRole)
        question.setDefaultButton(QMessageBox.StandardButton.Cancel)
        question.setEscapeButton(QMessageBox.StandardButton.Cancel)
        return question

    def _show(self, nbytes: int) -> None:
        words = tr("What is kept of chats takes {size} now.").format(size=size_text(nbytes))
        self.taken.setText(words if nbytes else tr("Nothing is kept of any chat now."))
        offer(self.delete, self.delete.accessibleName(), "" if nbytes else self.taken.text())


class MemoryPage(OptionsPage):
    """Looks at the folder when it is shown."""

    def __init__(self, controller: KeptController, parent: QWidget | None = None) -> None:
        super().__init__(MEMORY, tr("Memory"), parent)
        self._controller = controller
        self.kept = KeptBox(controller, self)
        self.add(self.kept, tr("Delete what is kept of all chats"))

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Have it measured."""
        super().showEvent(event)
        self._controller.measure()
