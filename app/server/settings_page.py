"""How the local server is set: the options that Preferences have too, and the key."""

import re
import secrets

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QLabel, QLineEdit, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.preferences.page import OptionRow, changes, options_on, value_of
from app.server.controller import ServerController
from app.settings.preferences import SERVER
from app.settings.store import SettingsFile
from app.system.plain_text import tip
from app.ui.flow_layout import flow_of
from app.ui.widgets import copy_text, fill, label, make_room, offer, page_body

_TYPED_MS = 500  # after the last change, before it is kept
_RANDOM_BYTES = 24
_FORM = re.compile(r"[A-Za-z0-9._~+/=-]{1,256}")  # what a header can hold, and a shell leaves as it is


def new_key() -> str:
    """A key that nobody guesses."""
    return f"sk-coppice-{secrets.token_urlsafe(_RANDOM_BYTES)}"


class KeyBox(QWidget):
    """The key: typed or generated, shown or hidden, copied, removed. It holds for a server that is started then."""

    def __init__(self, controller: ServerController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        title = QLabel(tr("Key"), self)
        title.setObjectName("option-title")
        about = tr(
            "Clients must show it, as they show one to OpenAI or Anthropic. It is kept in the system's keyring. "
            "Without one, every program on this computer may ask."
        )
        self.field = QLineEdit(self, placeholderText=tr("No key"))
        self.field.setAccessibleName(title.text())
        self.field.setAccessibleDescription(about)
        self.show_ = self._button(tr("Show"), tr("Show the key"), self._on_shown)
        self.show_.setCheckable(True)
        self.copy = self._button(tr("Copy"), tr("Copy the key"), self._on_copy)
        self.generate = self._button(tr("Generate"), tr("Generate a new key in place of this one"), self._on_generate)
        self.remove = self._button(tr("Remove"), tr("Remove the key"), self._on_remove)
        self.error = label("error", "", self)
        make_room(self.show_)
        buttons = flow_of((self.show_, self.copy, self.generate, self.remove), 6, self)
        fill(self, (title, label("quiet-text", about, self), self.field, buttons, self.error), 4)
        self.field.editingFinished.connect(self._on_typed)
        controller.changed.connect(lambda _state: self.refresh())
        self._on_shown()
        self.refresh()

    def _button(self, text: str, name: str, action: object) -> QPushButton:
        button = QPushButton(text, self)
        button.setAccessibleName(name)
        button.setToolTip(tip(name))
        button.setAutoDefault(False)
        button.clicked.connect(action)
        return button

    def refresh(self) -> None:
        """Show the key, and what is the matter with it; what is being typed stays, and what is wrong with it."""
        key = self._controller.key
        for button in (self.copy, self.remove):
            offer(button, button.accessibleName(), "" if key.value else tr("There is no key."))
        if self.field.isModified():
            return
        self.field.setText(key.value or "")
        self._tell("" if key.is_kept else tr("No keyring has kept this key: it holds until Coppice is closed."))

    def make(self) -> None:
        """Have a new key used from now on, and show it."""
        self.field.setModified(False)
        self._controller.set_key(new_key())
        self.field.setText(self._controller.key.value or "")
        self.show_.setChecked(True)
        self._on_shown()

    def _on_generate(self) -> None:
        self.make()
        self.field.setFocus()
        self.field.selectAll()

    def _on_shown(self) -> None:
        shown = self.show_.isChecked()
        self.field.setEchoMode(QLineEdit.EchoMode.Normal if shown else QLineEdit.EchoMode.Password)
        self.show_.setText(tr("Hide") if shown else tr("Show"))

    def _on_copy(self) -> None:
        copy_text(self._controller.key.value or "", self.copy)

    def _on_typed(self) -> None:
        typed = self.field.text().strip()
        if typed and not _FORM.fullmatch(typed):
            self._tell(tr("This cannot be used. A key has letters, digits and . _ ~ + / = - alone."))
            return
        self.field.setModified(False)
        if typed == (self._controller.key.value or ""):
            self.refresh()
        else:
            self._controller.set_key(typed)

    def _on_remove(self) -> None:
        self.field.setModified(False)
        self._controller.set_key("")

    def _tell(self, words: str) -> None:
        self.error.setText(words)
        self.error.setVisible(bool(words))


class SettingsPage(QScrollArea):
    """Every change holds at once; for a server that is on, as soon as it is started anew."""

    def __init__(self, controller: ServerController, settings: SettingsFile, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._settings = settings
        body = page_body(self)
        self.rows = {name: OptionRow(each, body) for name, each in options_on(SERVER).items()}
        self.key = KeyBox(controller, body)
        column = QVBoxLayout(body)
        column.setContentsMargins(20, 14, 20, 20)
        column.setSpacing(20)
        for place, row in enumerate(self.rows.values()):
            column.addWidget(row)
            if not place:
                column.addWidget(self.key)
        column.addStretch(1)
        self._typed = QTimer(self, singleShot=True, interval=_TYPED_MS)
        self._typed.timeout.connect(self.keep)
        self.load()
        for row in self.rows.values():
            row.edited.connect(self._typed.start)

    def load(self) -> None:
        """Show what holds."""
        for name, row in self.rows.items():
            row.load(self._settings.current, value_of(self._settings.current, name))
        self._typed.stop()

    def refresh(self) -> None:
        """Show what was changed elsewhere, such as in Preferences; what is being written here stays."""
        if not self._typed.isActive():
            for name, row in self.rows.items():
                if row.editor.value() != (value := value_of(self._settings.current, name)) and row.check():
                    row.load(self._settings.current, value)
            self._typed.stop()

    def settle(self) -> None:
        """Keep what was typed a moment ago."""
        if self._typed.isActive():
            self.keep()

    def keep(self) -> None:
        """Keep what can be used; what cannot says so beside its field."""
        self._typed.stop()
        values = {name: row.editor.value() for name, row in self.rows.items() if row.check()}
        self._settings.change(**changes(self._settings.current, values))
        self._controller.on_settings_changed()
