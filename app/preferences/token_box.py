"""The hub token: shown masked, put into the system's keyring, taken out of it."""

from typing import Protocol

from PySide6.QtCore import SignalInstance
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.ui.widgets import label


class TokenDesk(Protocol):
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

    def __init__(self, desk: TokenDesk, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
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
        self.keep.setEnabled(False)
        self.forget = QPushButton(tr("Remove"), self)
        self.forget.setAccessibleName(tr("Remove the access token from the keyring"))
        self.forget.setEnabled(False)
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
        self.field.textChanged.connect(lambda text: self.keep.setEnabled(bool(text.strip())))
        self.field.returnPressed.connect(self._on_keep)
        self.keep.clicked.connect(self._on_keep)
        self.forget.clicked.connect(desk.forget)
        desk.told.connect(self._show)
        desk.failed.connect(self._show_error)

    def look(self) -> None:
        """Ask what there is."""
        self._desk.look()

    def _on_keep(self) -> None:
        if secret := self.field.text().strip():
            self.error.hide()
            self._desk.keep(secret)

    def _show(self, masked: str, origin: str, can_forget: bool) -> None:
        self.field.clear()
        self.error.hide()
        words = tr("{token}, from {origin}").format(token=masked, origin=origin)
        self.state.setText(words if masked else tr("There is none."))
        self.forget.setEnabled(can_forget)

    def _show_error(self, words: str) -> None:
        self.error.setText(words)
        self.error.show()
