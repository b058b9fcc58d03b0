"""What serves every part of the window: the command palette, Preferences, diagnostics, and the way between panes."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QAction, QDesktopServices, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QMainWindow, QWidget

from app.chat.conversations import Conversations
from app.engine.kept_texts import KeptConversations
from app.engine.state import EngineState
from app.i18n.translation import tr
from app.installation.link import RuntimeLink
from app.library.controller import LibraryController
from app.library.feature import ModelsFeature
from app.settings.network import Network
from app.settings.preferences import Preferences
from app.settings.store import SettingsFile
from app.shell.command_palette import CommandPalette, Entry, used
from app.shell.keyboard import Panes, ShortcutGuard
from app.system.passwords import Passwords
from app.system.paths import Folders
from app.ui.actions import Actions, plain
from app.ui.notices import Notice, Tone
from app.ui.theme import Theme
from engine import __version__

if TYPE_CHECKING:
    from app.hub.tokens import Tokens
    from app.library.hub_queries import HubTokenController
    from app.preferences.dialog import PreferencesDialog
    from app.preferences.engine_page import EnginePage

DIAGNOSTICS_NOTICE = "diagnostics-copied"
UNKEPT_NOTICE = "password-not-kept"

_CHAT = "chat:"
_LOGGERS = ("app", "coppice")


class WindowTools(QObject):
    """`preferences_changed` comes when options have changed, and once for `begin`; `closing` when the window closes."""

    preferences_changed = Signal()
    server_wanted = Signal()  # from Preferences, which are closed by then
    closing = Signal()
    notice_raised = Signal(Notice)

    def __init__(
        self, window: QMainWindow, settings: SettingsFile, folders: Folders, theme: Theme, kept: KeptConversations
    ) -> None:
        super().__init__(window)
        self._window, self._settings, self._folders, self._theme, self._kept = window, settings, folders, theme, kept
        self._network = Network(os.environ)
        self._passwords = Passwords(self)
        self._passwords.changed.connect(self._tell_network)
        self._passwords.not_kept.connect(self._on_password_not_kept)
        self._desk: HubTokenController | None = None
        self._runtime: RuntimeLink | None = None
        self._open_assistant: Callable[[bool], None] | None = None
        self._preferences: PreferencesDialog | None = None
        self.palette = CommandPalette(theme.colors, window)
        self.palette.chosen.connect(self._on_chosen)
        theme.changed.connect(self.palette.set_theme)

    def follow(
        self, actions: Actions, conversations: Conversations, library: LibraryController, models: ModelsFeature
    ) -> None:
        """Connect the actions that are for here."""
        actions.register(
            palette=lambda: self.open_palette(actions, conversations),
            preferences=lambda: self.open_preferences(models.tokens),
            copy_diagnostics=lambda: self.copy_diagnostics(library.state),
            log_folder=self._open_log_folder,
            shortcuts=lambda: self._show_shortcuts(actions),
            about=self._show_about,
        )
        self.preferences_changed.connect(models.on_preferences_changed)
        ShortcutGuard((actions.palette,), self._window)

    def set_panes(self, panes: Sequence[QWidget], actions: Actions) -> None:
        """Let F6 go through these."""
        way = Panes(panes, self)
        actions.register(next_pane=lambda: way.go(1), previous_pane=lambda: way.go(-1))

    # ---- palette ----------------------------------------------------------------------------------------------------

    def open_palette(self, actions: Actions, conversations: Conversations) -> None:
        """Show everything that can be done, and every conversation."""
        entries = [_entry(action, menu) for action, menu in actions.commands if action is not actions.palette]
        entries += [
            Entry(f"{_CHAT}{each.id}", each.shown_title, tr("Chat"), "", _opener(conversations, each.id))
            for each in conversations.autosave.records
        ]
        self.palette.open(entries, self._settings.current.recent_commands)

    def _on_chosen(self, entry: Entry) -> None:
        self._settings.change(recent_commands=used(self._settings.current.recent_commands, entry.key))

    # ---- Preferences ------------------------------------------------------------------------------------------------

    def open_preferences(self, tokens: "Tokens") -> None:
        """Show the dialog; it is made, and its modules are read, when it is first asked for."""
        if self._preferences is None:
            from app.hub.place import hub_place  # noqa: PLC0415
            from app.library.hub_queries import HubTokenController  # noqa: PLC0415
            from app.preferences.pages import preferences_dialog  # noqa: PLC0415

            self._desk = HubTokenController(tokens, self)
            self._preferences = preferences_dialog(
                self._settings,
                self._folders,
                hub_place().cache,
                self._desk,
                self._kept,
                self._window,
                self._engine_page(),
            )
            self._preferences.applied.connect(self._apply)
            self._preferences.server_wanted.connect(self._on_server_wanted)
        self._preferences.open()

    def add_runtime(self, link: RuntimeLink, open_assistant: Callable[[bool], None]) -> None:
        """Give the engine's runtime a page in Preferences."""
        self._runtime, self._open_assistant = link, open_assistant

    def _engine_page(self) -> "EnginePage | None":
        if self._runtime is None or self._open_assistant is None:
            return None
        from app.preferences.engine_page import EnginePage  # noqa: PLC0415

        page = EnginePage(self._runtime)
        page.assistant_requested.connect(self._on_assistant)
        return page

    def _on_assistant(self, asks: bool) -> None:
        """Preferences would stand in the assistant's way."""
        if self._preferences is not None:
            self._preferences.accept()
        if self._open_assistant is not None:
            self._open_assistant(asks)

    def _on_server_wanted(self) -> None:
        """Preferences are modal: the server's window could not be used beside them."""
        if self._preferences is not None:
            self._preferences.accept()
            if not self._preferences.isVisible():
                self.server_wanted.emit()

    def begin(self) -> None:
        """Let the settings take effect."""
        self._apply()

    def close(self) -> None:
        """End what goes on beside the window."""
        self.closing.emit()
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
        self.preferences_changed.emit()

    def _tell_network(self) -> None:
        settings, complete = self._settings.current, self._passwords.complete
        self._network.tell(replace(settings, proxy=complete(settings.proxy), endpoint=complete(settings.endpoint)))

    def _on_password_not_kept(self) -> None:
        words = tr("This system has no keyring that would keep the password of the proxy or of the hub's address.")
        hint = tr("It is used until Coppice is closed, and is not written to a file. Then it has to be typed again.")
        self.notice_raised.emit(Notice(UNKEPT_NOTICE, words, hint))

    # ---- help -------------------------------------------------------------------------------------------------------

    def _show_shortcuts(self, actions: Actions) -> None:
        from app.shell.dialogs import ShortcutsDialog  # noqa: PLC0415

        ShortcutsDialog(actions.listed, self._window).open()

    def _show_about(self) -> None:
        from app.shell.dialogs import about_box  # noqa: PLC0415

        about_box(__version__, self._window).open()

    # ---- diagnostics ------------------------------------------------------------------------------------------------

    def copy_diagnostics(self, state: EngineState) -> None:
        """Put them on the clipboard, and say what they hold."""
        from app.shell.diagnostics import diagnostics  # noqa: PLC0415

        QGuiApplication.clipboard().setText(diagnostics(state, self._settings.current, self._folders))
        words = tr("Diagnostics are on the clipboard: versions, hardware, settings and the end of the logs.")
        hint = tr("They hold no text of a chat and no token. Read them before you hand them on.")
        self.notice_raised.emit(Notice(DIAGNOSTICS_NOTICE, words, hint, tone=Tone.HINT))

    def _open_log_folder(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._folders.logs)))


def _entry(action: QAction, menu: str) -> Entry:
    name = plain(action.text())
    if action.isCheckable():
        state = tr("{action} (now on)") if action.isChecked() else tr("{action} (now off)")
        name = state.format(action=name)
    keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
    return Entry(action.objectName(), name, menu, keys, action.trigger, action.isEnabled())


def _opener(conversations: Conversations, conversation: int) -> Callable[[], None]:
    return lambda: conversations.autosave.open(conversation)
