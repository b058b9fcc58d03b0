"""The pages of Preferences that are more than their options, and the dialog with every page."""

from pathlib import Path
from typing import Protocol

from PySide6.QtCore import Qt, QUrl, Signal, SignalInstance
from PySide6.QtGui import QDesktopServices, QShowEvent
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMessageBox,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.i18n.translation import tr
from app.preferences.dialog import PreferencesDialog
from app.preferences.memory_page import KeptController, MemoryPage
from app.preferences.page import OptionsPage
from app.preferences.tools.page import ToolsPage
from app.settings.preferences import ADVANCED, APPEARANCE, CHAT, MODELS, NETWORK, SERVER, SPECULATION
from app.settings.store import SettingsFile
from app.system.paths import Folders, is_folder
from app.tools.servers import ToolServers
from app.ui.widgets import fill, label, offer, row_of


class PlaceRow(QWidget):
    """The name of a place, what lies there, its path, and a way to go there."""

    def __init__(self, title: str, about: str, path: Path, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.path = path
        name = QLabel(title, self)
        name.setObjectName("option-title")
        words = label("quiet-text", about, self)
        self.shown = label("", str(path), self)
        self.shown.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.shown.setAccessibleName(title)
        self.open = QPushButton(tr("Open folder"), self)
        self.open.setAccessibleName(tr("Open folder: {place}").format(place=title))
        self.open.clicked.connect(self._on_open)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(24)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(0, 1)
        grid.addWidget(name, 0, 0)
        grid.addWidget(words, 1, 0)
        grid.addWidget(self.shown, 2, 0)
        grid.addWidget(self.open, 0, 1, 3, 1, Qt.AlignmentFlag.AlignTop)

    def _on_open(self) -> None:
        """The nearest folder that is there: some are made only when they are needed."""
        there = next((each for each in (self.path, *self.path.parents) if is_folder(each)), self.path)
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(there)))


class TokenController(Protocol):
    """Looks the token up beside the window, as a locked keyring may block; `told` carries it masked, and its origin.

    `can_forget` in `told` says whether it is ours to remove.
    """

    told: SignalInstance  # masked: str, origin: str, can_forget: bool
    failed: SignalInstance  # words: str

    def look(self) -> None:
        """Find it."""
        ...

    def keep(self, secret: str) -> None:
        """Put it into the keyring."""
        ...

    def forget(self) -> None:
        """Take it out again."""
        ...


class TokenBox(QWidget):
    """Changes to the token hold at once; they are no part of what OK and Cancel decide about."""

    def __init__(self, controller: TokenController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        title = QLabel(tr("Access token of the model hub"), self)
        title.setObjectName("option-title")
        about = tr("For models that ask for it. It is kept in the system's keyring and sent to the hub alone.")
        self.state = label("", tr("Looking for a token…"), self)
        self.error = label("error", "", self)
        self.error.hide()
        self.field = QLineEdit(self, placeholderText="hf_…")
        self.field.setEchoMode(QLineEdit.EchoMode.Password)
        self.field.setAccessibleName(title.text())
        self.field.setAccessibleDescription(about)
        self.keep = QPushButton(tr("Keep in keyring"), self)
        self.forget = QPushButton(tr("Remove"), self)
        self.forget.setAccessibleName(tr("Remove the access token from the keyring"))
        row = QHBoxLayout()
        for widget in (self.field, self.keep, self.forget):
            row.addWidget(widget)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        for each in (title, label("quiet-text", about, self), self.state):
            column.addWidget(each)
        column.addLayout(row)
        column.addWidget(self.error)
        self.field.textChanged.connect(self._offer_to_keep)
        self._offer_to_keep("")
        self._offer_to_forget(False)
        self.field.returnPressed.connect(self._on_keep)
        self.keep.clicked.connect(self._on_keep)
        self.forget.clicked.connect(controller.forget)
        controller.told.connect(self._show)
        controller.failed.connect(self._show_error)

    def look(self) -> None:
        """Ask what there is."""
        self._controller.look()

    def _on_keep(self) -> None:
        if secret := self.field.text().strip():
            self.error.hide()
            self._controller.keep(secret)

    def _show(self, masked: str, origin: str, can_forget: bool) -> None:
        self.field.clear()
        self.error.hide()
        words = tr("{token}, from {origin}").format(token=masked, origin=origin)
        self.state.setText(words if masked else tr("There is none."))
        self._offer_to_forget(can_forget)

    def _offer_to_keep(self, text: str) -> None:
        lacks = "" if text.strip() else tr("Write or paste a token first.")
        offer(self.keep, tr("Keep the access token in the system's keyring"), lacks)

    def _offer_to_forget(self, can_forget: bool) -> None:
        lacks = "" if can_forget else tr("The keyring has none.")
        offer(self.forget, tr("Remove the access token from the keyring"), lacks)

    def _show_error(self, words: str) -> None:
        self.error.setText(words)
        self.error.show()


class ModelsPage(OptionsPage):
    """Adds the hub's cache and the file of all chats, which are shown and not changed here."""

    def __init__(self, folders: Folders, hub_cache: Path, parent: QWidget | None = None) -> None:
        super().__init__(MODELS, tr("Models and folders"), parent)
        hub = tr("Hub cache")
        about_hub = tr("Downloaded models, shared with other programs. HF_HOME moves it.")
        chats = tr("Chats")
        about_chats = tr("All conversations are in one file here.")
        self.hub_cache = PlaceRow(hub, about_hub, hub_cache, self)
        self.chats = PlaceRow(chats, about_chats, folders.data, self)
        self.add(self.hub_cache, f"{hub} {about_hub}")
        self.add(self.chats, f"{chats} {about_chats}")


class NetworkPage(OptionsPage):
    """Looks for the token when it is shown, not before: a keyring may ask its owner for a password."""

    def __init__(self, controller: TokenController, parent: QWidget | None = None) -> None:
        super().__init__(NETWORK, tr("Network"), parent)
        self.token = TokenBox(controller, self)
        self.add(self.token, tr("Access token of the model hub"))

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Look the token up."""
        super().showEvent(event)
        self.token.look()


class ServerPage(OptionsPage):
    """`window_requested` wants the server's own window, where it is switched on and its key is set."""

    window_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(SERVER, tr("Local server"), parent)
        about = tr("The server is switched on and off in a window of its own, which has its key and its log too.")
        box = QWidget(self)
        self.open = QPushButton(tr("Open the local server's window"), box)
        self.open.clicked.connect(self.window_requested)
        row = row_of((self.open,), 0)
        row.addStretch(1)
        fill(box, (label("quiet-text", about, box), row), 8)
        self.add(box, f"{self.open.text()} {about}")


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


def preferences_dialog(
    settings: SettingsFile,
    folders: Folders,
    hub_cache: Path,
    controller: TokenController,
    kept: KeptController,
    tools: ToolServers,
    parent: QWidget | None = None,
    engine: OptionsPage | None = None,
) -> PreferencesDialog:
    """The dialog with all its pages; most of them are nothing but their options. `engine`: of a runtime of its own."""
    advanced, server = AdvancedPage(folders), ServerPage()
    pages = (
        OptionsPage(APPEARANCE, tr("Appearance")),
        OptionsPage(CHAT, tr("Chat")),
        ModelsPage(folders, hub_cache),
        MemoryPage(kept),
        OptionsPage(SPECULATION, tr("Speculation")),
        *([engine] if engine is not None else []),
        NetworkPage(controller),
        ToolsPage(tools),
        server,
        advanced,
    )
    dialog = PreferencesDialog(settings, pages, parent)
    advanced.reset_requested.connect(dialog.reset_all)
    server.window_requested.connect(dialog.server_wanted)
    return dialog
