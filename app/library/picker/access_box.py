"""What stands between a person and a model of the hub, in words, and the field for a token that removes it."""

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.hub.trouble import HubError, Trouble
from app.i18n.known_sentences import translated
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.ui.widgets import label
from engine.errors import CoppiceError

_TITLES = {
    Trouble.NOT_LOGGED_IN: mark("Not logged in"),
    Trouble.LICENCE_NOT_ACCEPTED: mark("Licence not accepted"),
    Trouble.REFUSED: mark("Access refused"),
    Trouble.NOT_FOUND: mark("Not found"),
    Trouble.OFFLINE: mark("Offline"),
    Trouble.BUSY: mark("The hub is busy"),
}


class AccessBox(QFrame):
    """Shows one trouble. `token_given` carries a token to be kept; `again_requested` asks to look again."""

    token_given = Signal(str)
    again_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._page = ""
        self.setObjectName("notice")
        self.title = label("box-title", "", self)
        self.words = label("", "", self)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.token = QLineEdit(self, placeholderText=tr("Access token, hf_…"))
        self.token.setEchoMode(QLineEdit.EchoMode.Password)
        self.token.setAccessibleName(tr("Access token of the model hub"))
        self.token.setToolTip(tr("It is kept in the system's keyring, and sent to the hub alone."))
        self.keep = QPushButton(tr("Keep in keyring"), self)
        self.page = QPushButton(tr("Open page"), self)
        self.again = QPushButton(tr("Check again"), self)
        entry = QHBoxLayout()
        entry.addWidget(self.token, 1)
        entry.addWidget(self.keep)
        buttons = QHBoxLayout()
        buttons.addWidget(self.page)
        buttons.addWidget(self.again)
        buttons.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 14, 10)
        column.setSpacing(7)
        column.addWidget(self.title)
        column.addWidget(self.words)
        column.addLayout(entry)
        column.addLayout(buttons)
        self.keep.clicked.connect(self._on_keep)
        self.token.returnPressed.connect(self._on_keep)
        self.page.clicked.connect(self.open_page)
        self.again.clicked.connect(self.again_requested)
        self.hide()

    def show_trouble(self, trouble: CoppiceError | None) -> None:
        """Show what is wrong, or nothing."""
        self.setVisible(trouble is not None)
        if trouble is None:
            self.token.clear()
            return
        kind = trouble.trouble if isinstance(trouble, HubError) else None
        self._page = trouble.page if isinstance(trouble, HubError) else ""
        self.setProperty("tone", "hint" if kind in _TITLES else "error")
        self.style().unpolish(self)
        self.style().polish(self)
        self.title.setText(tr(_TITLES[kind]) if kind in _TITLES else tr("Cannot be used"))
        self.words.setText(translated(str(trouble)))
        asks_token = kind is Trouble.NOT_LOGGED_IN
        self.token.setVisible(asks_token)
        self.keep.setVisible(asks_token)
        self.page.setVisible(bool(self._page) and not asks_token)
        self.page.setText(tr("Open licence page") if kind is Trouble.LICENCE_NOT_ACCEPTED else tr("Open page"))
        self.again.setVisible(kind in _TITLES and not asks_token)

    def open_page(self) -> None:
        """Show the page where the trouble can be removed, in the browser."""
        if self._page:
            QDesktopServices.openUrl(QUrl(self._page))

    def _on_keep(self) -> None:
        if secret := self.token.text().strip():
            self.token_given.emit(secret)
