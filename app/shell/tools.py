"""What serves every part of the window: the command palette, diagnostics, help, and the way between panes."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QMainWindow, QWidget

from app.chat.conversations import Conversations
from app.engine.state import EngineState
from app.i18n.translation import tr
from app.library.controller import LibraryController
from app.settings.store import SettingsFile
from app.shell.keyboard import Panes, ShortcutGuard
from app.system.paths import Folders
from app.ui.actions import Actions
from app.ui.notices import Notice, Tone
from app.ui.theme import Theme
from engine import __version__

if TYPE_CHECKING:
    from app.shell.command_palette import CommandPalette, Entry

DIAGNOSTICS_NOTICE = "diagnostics-copied"

_CHAT = "chat:"


class WindowTools(QObject):
    """Of one window: nothing here outlives it."""

    notice_raised = Signal(Notice)

    def __init__(self, window: QMainWindow, settings: SettingsFile, folders: Folders, theme: Theme) -> None:
        super().__init__(window)
        self._window, self._settings, self._folders, self._theme = window, settings, folders, theme

    def follow(
        self,
        actions: Actions,
        conversations: Conversations,
        library: LibraryController,
        show_option: Callable[[str], object],
    ) -> None:
        """Connect the actions that are for here; `show_option` opens Preferences at an option."""
        actions.register(
            palette=lambda: self.open_palette(actions, conversations, show_option),
            copy_diagnostics=lambda: self.copy_diagnostics(library.state),
            log_folder=self._open_log_folder,
            shortcuts=lambda: self._show_shortcuts(actions),
            about=self._show_about,
        )
        ShortcutGuard((actions.palette,), self._window)

    def set_panes(self, panes: Sequence[QWidget], actions: Actions) -> None:
        """Let F6 go through these."""
        way = Panes(panes, self)
        actions.register(next_pane=lambda: way.go(1), previous_pane=lambda: way.go(-1))

    # ---- palette ----------------------------------------------------------------------------------------------------

    @cached_property
    def palette(self) -> "CommandPalette":
        """The command palette; made when it is first opened."""
        from app.shell.command_palette import CommandPalette  # noqa: PLC0415

        made = CommandPalette(self._theme.colors, self._window)
        made.chosen.connect(self._on_chosen)
        self._theme.changed.connect(made.set_theme)
        return made

    def open_palette(
        self, actions: Actions, conversations: Conversations, show_option: Callable[[str], object]
    ) -> None:
        """Show everything that can be done or set, and every conversation."""
        from app.shell.command_palette import Entry, entry_of, option_entries  # noqa: PLC0415

        entries = [entry_of(action, menu) for action, menu in actions.commands if action is not actions.palette]
        entries += option_entries(show_option)
        entries += [
            Entry(f"{_CHAT}{each.id}", each.shown_title, tr("Chat"), "", _opener(conversations, each.id))
            for each in conversations.autosave.records
        ]
        self.palette.open(entries, self._settings.current.recent_commands)

    def _on_chosen(self, entry: "Entry") -> None:
        from app.shell.command_palette import used  # noqa: PLC0415

        self._settings.change(recent_commands=used(self._settings.current.recent_commands, entry.key))

    # ---- help -------------------------------------------------------------------------------------------------------

    def _show_shortcuts(self, actions: Actions) -> None:
        from app.shell.dialogs import ShortcutsDialog  # noqa: PLC0415
        from app.tree.panel import KEYS  # noqa: PLC0415

        sends_with_ctrl = self._settings.current.send_key == "ctrl-return"
        ShortcutsDialog(actions.listed, self._window, sends_with_ctrl, KEYS).open()

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


def _opener(conversations: Conversations, conversation: int) -> Callable[[], None]:
    return lambda: conversations.autosave.open(conversation)
