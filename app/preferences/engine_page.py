"""The page of the engine: which one is installed, and what can be done about it."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QMessageBox, QPushButton, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.installation.link import RuntimeLink
from app.installation.runtime.builds import NAMES, Build
from app.preferences.page import OptionsPage
from app.preferences.pages import PlaceRow
from app.ui.widgets import label


class EnginePage(OptionsPage):
    """`assistant_requested` wants the assistant; everything here holds at once, whatever OK and Cancel decide about."""

    assistant_requested = Signal(bool)  # whether it is to ask which engine is wanted

    def __init__(self, link: RuntimeLink, parent: QWidget | None = None) -> None:
        super().__init__("engine", tr("Engine"), parent)
        self._link = link
        box = QWidget(self)
        self.state = label("option-title", "", box)
        self.about = label("quiet-text", "", box)
        self.error = label("error", "", box)
        self.change = QPushButton(tr("Change…"), box)
        self.update_ = QPushButton(tr("Update"), box)
        self.repair = QPushButton(tr("Repair"), box)
        self.repair.setToolTip(tr("Install the same engine anew; the present one is used until that is done."))
        self.remove = QPushButton(tr("Remove…"), box)
        self.remove.setAccessibleName(tr("Remove the engine"))
        row = QHBoxLayout()
        for button in (self.change, self.update_, self.repair, self.remove):
            row.addWidget(button)
        row.addStretch(1)
        column = QVBoxLayout(box)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        for widget in (self.state, self.about, self.error):
            column.addWidget(widget)
        column.addLayout(row)
        self.add(box, tr("Engine: install, change, update, repair, remove"))
        title, words = tr("Engine folder"), tr("What was installed. It can be removed and installed again at any time.")
        self.add(PlaceRow(title, words, link.manager.place.folder, self), f"{title} {words}")
        self.question = self._build_question()
        self._connect()

    def _connect(self) -> None:
        self.change.clicked.connect(lambda: self.assistant_requested.emit(True))
        self.update_.clicked.connect(self._on_repair)
        self.repair.clicked.connect(self._on_repair)
        self.remove.clicked.connect(self._on_question)
        self._link.changed.connect(lambda _: self._show())
        self._link.failed.connect(self._on_failed)

    def _build_question(self) -> QMessageBox:
        question = QMessageBox(self)
        question.setIcon(QMessageBox.Icon.Warning)
        question.setWindowTitle(tr("Remove the engine"))
        question.setText(tr("Remove the engine?"))
        question.setInformativeText(tr("Models cannot answer without it. Chats and models stay."))
        question.addButton(QMessageBox.StandardButton.Cancel)
        self.confirm = question.addButton(tr("Remove"), QMessageBox.ButtonRole.DestructiveRole)
        question.setDefaultButton(QMessageBox.StandardButton.Cancel)
        question.setEscapeButton(QMessageBox.StandardButton.Cancel)
        self.confirm.clicked.connect(self._on_remove)
        return question

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Show the state of now."""
        super().showEvent(event)
        self._show()

    def _show(self) -> None:
        if not self.isVisible():
            return
        here, is_leaving = self._link.installed, self._link.is_removing
        is_busy = self._link.is_busy or is_leaving
        is_outdated = here is not None and self._link.manager.is_outdated()
        self.error.setVisible(bool(self.error.text()))
        self.change.setText(tr("Change…") if here else tr("Install…"))
        if is_leaving:
            self.state.setText(tr("The engine is being removed…"))
            self.about.setText(tr("It is many small files; that takes a moment."))
        elif here is None:
            self.state.setText(tr("No engine is installed."))
            self.about.setText(tr("Models need one to answer."))
        else:
            self.state.setText(tr(NAMES[Build(here.build)]) if here.build in set(Build) else here.build)
            about = tr("PyTorch {version}.").format(version=here.torch)
            newer = tr("This version of Coppice was made for a newer one.") if is_outdated else ""
            missed = tr("It does not find the graphics card: the processor computes.") if here.misses_card else ""
            self.about.setText(" ".join(filter(None, (about, missed, newer))))
        self.update_.setVisible(is_outdated)
        self.repair.setVisible(here is not None)
        self.remove.setVisible(here is not None)
        for button in (self.update_, self.repair, self.remove):
            button.setEnabled(not is_busy)
        self.change.setEnabled(not is_leaving)

    def _on_repair(self) -> None:
        self.assistant_requested.emit(False)
        self._link.repair()

    def _on_question(self) -> None:
        """Return means Cancel, whatever was chosen the last time."""
        self.question.setDefaultButton(QMessageBox.StandardButton.Cancel)
        self.question.button(QMessageBox.StandardButton.Cancel).setFocus()
        self.question.open()

    def _on_remove(self) -> None:
        self.error.clear()
        self._link.remove()
        self._show()

    def _on_failed(self, words: str) -> None:
        self.error.setText(words)
        self._show()
