"""Preferences in the program: the dialog, made when it is first opened, and what takes effect beside the windows."""

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.engine.kept_texts import KeptConversations
from app.i18n.translation import tr
from app.installation.link import RuntimeLink
from app.settings.network import Network
from app.settings.preferences import Preferences
from app.settings.store import SettingsFile
from app.system.passwords import Passwords
from app.system.paths import Folders
from app.tools.servers import ToolServers
from app.ui.notices import Notice
from app.ui.theme import Theme
from app.ui.widgets import adopt

if TYPE_CHECKING:
    from app.hub.tokens import Tokens
    from app.library.hub_queries import HubTokenController
    from app.preferences.dialog import PreferencesDialog
    from app.preferences.engine_page import EnginePage

UNKEPT_NOTICE = "password-not-kept"

_LOGGERS = ("app", "coppice")


class PreferencesFeature(QObject):
    """`changed` comes when options have changed, and once for `begin`."""

    changed = Signal()
    server_wanted = Signal()  # from the dialog, which is closed by then
    notice_raised = Signal(Notice)

    def __init__(
        self,
        front: Callable[[], QWidget],
        settings: SettingsFile,
        folders: Folders,
        theme: Theme,
        kept: KeptConversations,
        tools: ToolServers,
        parent: QObject,
    ) -> None:
        """`front`: the window that the dialog is opened over; `kept`, `tools`: what pages of their own are about."""
        super().__init__(parent)
        self._front, self._settings, self._folders, self._theme = front, settings, folders, theme
        self._kept, self._tools = kept, tools
        self._network = Network(os.environ)
        self._passwords = Passwords(self)
        self._passwords.changed.connect(self._tell_network)
        self._passwords.not_kept.connect(self._on_password_not_kept)
        self._desk: HubTokenController | None = None
        self._runtime: RuntimeLink | None = None
        self._open_assistant: Callable[[bool], None] | None = None
        self.dialog: PreferencesDialog | None = None

    def open(self, tokens: "Tokens", option: str = "", page: str = "") -> None:
        """Show the dialog, maybe at an option or a page; made, and its modules read, when it is first asked for."""
        if self.dialog is None:
            from app.hub.place import hub_place  # noqa: PLC0415
            from app.library.hub_queries import HubTokenController  # noqa: PLC0415
            from app.preferences.pages import preferences_dialog  # noqa: PLC0415

            self._desk = HubTokenController(tokens, self)
            self.dialog = preferences_dialog(
                self._settings,
                self._folders,
                hub_place().cache,
                self._desk,
                self._kept,
                self._tools,
                self._front(),
                self._engine_page(),
            )
            self.dialog.applied.connect(self._apply)
            self.dialog.server_wanted.connect(self._on_server_wanted)
        adopt(self.dialog, self._front())
        self.dialog.open()
        if option:
            self.dialog.show_option(option)
        if page:
            self.dialog.show_page(page)

    def add_runtime(self, link: RuntimeLink, open_assistant: Callable[[bool], None]) -> None:
        """Give the engine's runtime a page."""
        self._runtime, self._open_assistant = link, open_assistant

    def _engine_page(self) -> "EnginePage | None":
        if self._runtime is None or self._open_assistant is None:
            return None
        from app.preferences.engine_page import EnginePage  # noqa: PLC0415

        page = EnginePage(self._runtime)
        page.assistant_requested.connect(self._on_assistant)
        return page

    def _on_assistant(self, asks: bool) -> None:
        """The dialog would stand in the assistant's way."""
        if self.dialog is not None:
            self.dialog.accept()
        if self._open_assistant is not None:
            self._open_assistant(asks)

    def _on_server_wanted(self) -> None:
        """The dialog is modal: the server's window could not be used beside it."""
        if self.dialog is not None:
            self.dialog.accept()
            if not self.dialog.isVisible():
                self.server_wanted.emit()

    def begin(self) -> None:
        """Let the settings take effect."""
        self._apply()

    def leave(self, window: QWidget) -> None:
        """A window goes, and the dialog with it if it is open there; it may be opened over another one."""
        if self.dialog is not None and self.dialog.parentWidget() is window:
            self.dialog.hide()
            adopt(self.dialog, self._front())

    def close(self) -> None:
        """End what goes on beside the windows."""
        self._network.tell(Preferences())
        if self._desk is not None:
            self._desk.close()

    def _apply(self) -> None:
        settings = self._settings.current
        self._theme.follow(settings)
        self._passwords.follow(
            {"proxy": settings.proxy, "endpoint": settings.endpoint}, self._settings.take_passwords()
        )
        self._tell_network()
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(settings.log_level.upper())
        self.changed.emit()

    def _tell_network(self) -> None:
        settings, complete = self._settings.current, self._passwords.complete
        self._network.tell(replace(settings, proxy=complete(settings.proxy), endpoint=complete(settings.endpoint)))

    def _on_password_not_kept(self) -> None:
        words = tr("This system has no keyring that would keep the password of the proxy or of the hub's address.")
        hint = tr("It is used until Coppice is closed, and is not written to a file. Then it has to be typed again.")
        self.notice_raised.emit(Notice(UNKEPT_NOTICE, words, hint))
