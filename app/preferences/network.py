"""The page of the network: options, and the hub token."""

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from app.i18n.translation import tr
from app.preferences.page import OptionsPage
from app.preferences.token_box import TokenBox, TokenDesk
from app.settings.preferences import NETWORK


class NetworkPage(OptionsPage):
    """Looks for the token when it is shown, not before: a keyring may ask its owner for a password."""

    def __init__(self, desk: TokenDesk, parent: QWidget | None = None) -> None:
        super().__init__(NETWORK, tr("Network"), parent)
        self.token = TokenBox(desk, self)
        self.add(self.token, tr("Access token of the model hub"))

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Somebody looks."""
        super().showEvent(event)
        self.token.look()
