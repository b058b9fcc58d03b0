"""What all windows share: engine, models, chats on disk, server and settings; opens windows, and ends with the last."""

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.archive.chat_list import ChatList
from app.chat.archive.worker import Archive
from app.engine.interface import EngineSwitch
from app.engine.kept_texts import KeptConversations
from app.engine.link import EngineLink
from app.engine.unheard_stop import UnheardStop
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.library.controller import LibraryController
from app.library.estimates import last_load
from app.library.feature import ModelsFeature
from app.library.remote.engines import EngineChoice
from app.server.feature import ServerFeature
from app.settings.preferences import TOOLS
from app.settings.store import SettingsFile
from app.shell.keyboard import DialogShortcuts
from app.shell.preferences import PreferencesFeature
from app.shell.unsaved import UnsavedChats
from app.shell.window import EMPTY_NOTICE, MainWindow
from app.shell.window_wiring import WindowWiring
from app.system.paths import Folders
from app.tools.servers import ToolServers
from app.ui.file_dialogs import remember_folder
from app.ui.focus_ring import FocusRings
from app.ui.notices import Notice, Tone
from app.ui.theme import Theme
from engine.protocol.messages import Failed
from engine.protocol.options import EMBEDDED, LoadOptions

LOAD_NOTICE = "load-failed"
SETTINGS_NOTICE, SETTINGS_RESET_NOTICE = "settings-not-saved", "settings-reset"

_PAUSE_MS = 8  # between the steps in which a window is opened, or they would be one turn of the event loop


class Program(QObject):
    """One engine, one link, one archive, one settings file; and windows, each with a conversation.

    `front` is the window that was last worked in: what concerns the program is said there, and its dialogs are opened
    over it. `closing` comes as the last window closes, `held` where that waits for a person's answer.
    """

    closing = Signal()
    closed = Signal()  # a window, while others stay open
    held = Signal()

    def __init__(
        self, link: EngineLink, settings: SettingsFile, folders: Folders, theme: Theme, wanted: LoadOptions
    ) -> None:
        super().__init__()
        self.link, self.settings, self.folders, self.theme = link, settings, folders, theme
        self.windows: list[MainWindow] = []
        self._front: MainWindow | None = None
        self._numbers = 0
        self._is_quitting = False
        self._told: set[str] = set()  # keys of notices that concern the program
        self.ending: Failed | None = None  # why the engine has stopped, as long as it has
        FocusRings(self)
        DialogShortcuts(lambda: self.front.actions_, self)
        self.switch = EngineSwitch(link, self)
        previous = last_load(settings.current, LoadOptions(settings.current.target, settings.current.draft))
        self.library = LibraryController(link, wanted, previous, self, self._complete_load)
        self.engines = EngineChoice(self.switch, self.library, settings, link.ids)
        self.unheard_stop = UnheardStop(link, self)
        self.chats = ChatList(Archive(folders.chats_file, self), self)
        self.unsaved = UnsavedChats(self.chats.archive, self._window_in_front, self)
        self.unsaved.retried.connect(self.quit)
        self.unsaved.given_up.connect(self.close_all)
        self.chats.copies_wanted.connect(self.unsaved.save_elsewhere)
        self.models = ModelsFeature(
            link, settings, folders, theme.colors, self._window_in_front, self.engines, parent=self
        )
        self.server = ServerFeature(link, settings, self._window_in_front, self)
        self.kept = KeptConversations(link, settings, folders.cache, self)
        self.toolbox = ToolServers(link.program, settings, folders, self)
        self.preferences = PreferencesFeature(
            self._window_in_front, settings, folders, theme, self.kept, self.toolbox, self
        )
        self._connect_engine()
        self._connect_models()
        self._connect_server()
        self._connect_kept()
        self.toolbox.page_wanted.connect(lambda: self.preferences.open(self.models.tokens, page=TOOLS))
        self._connect_notices()

    @property
    def front(self) -> MainWindow:
        """The window that was last worked in, open or, behind the last one, closed."""
        assert self._front is not None, "a program has a window"
        return self._front

    # ---- windows ----------------------------------------------------------------------------------------------------

    def open_window(self) -> MainWindow:
        """Make another window, with an empty chat. Whoever opens it shows it."""
        window = self._make_window()
        window.build()
        self._connect_window(window)
        return window

    def _make_window(self) -> MainWindow:
        self._numbers += 1
        return MainWindow(self, self._numbers)

    def _connect_window(self, window: MainWindow) -> None:
        """From now on it is one of the program's, and in front."""
        self.windows.append(window)
        WindowWiring(window)
        former, self._front = self._front, window
        window.begin(former)

    def show_new_window(self) -> None:
        """Open another window beside the one in front."""
        self._show_beside(0)

    def show_conversation(self, conversation: int) -> None:
        """Open another window with a conversation; what a window shows already is shown there instead."""
        holder = self.chats.holder(conversation)
        if holder is not None:
            holder.come_forward()
        else:
            self._show_beside(conversation)

    def _show_beside(self, conversation: int) -> None:
        """In several turns of the event loop, so that the others go on drawing their answers in between."""
        window = self._make_window()

        def connect() -> None:
            self._connect_window(window)
            window.conversations.autosave.open(conversation)

        self._do_in_turns(window, [window.build, connect, window.show, window.come_forward])

    def _do_in_turns(self, window: MainWindow, steps: list[Callable[[], None]]) -> None:
        """Unless the program ends meanwhile."""

        def go_on() -> None:
            if self.windows:
                steps[0]()
                self._do_in_turns(window, steps[1:])

        if steps:
            QTimer.singleShot(_PAUSE_MS, window, go_on)

    def begin(self) -> None:
        """Let the settings take effect, and take up the engine of last time; for when the first window is made."""
        remember_folder(self.settings.current.files_folder)
        self.settings.follow_writing(self._on_settings_written)
        self.preferences.begin()
        self.engines.begin()
        if (place := self.settings.set_aside) is not None:
            words = tr("Your settings could not be read, and begin anew: {reason}.").format(reason=self.settings.reason)
            hint = tr("The old file is kept as {place}.").format(place=place)
            self.tell(Notice(SETTINGS_RESET_NOTICE, words, hint))

    def start(self) -> None:
        """The first window is on its way to the screen: the engine starts, and what is on disk is read."""
        self.chats.start()
        self.models.start()
        self.toolbox.begin()
        if not self.link.isRunning():
            self.server.controller.begin()
            self.link.start()

    def on_activated(self, window: MainWindow) -> None:
        """A person works in this window now."""
        if window in self.windows:
            self._front = window

    def on_closed(self, window: MainWindow) -> None:
        """A window has closed; with the last one the engine goes too, which may take a moment longer."""
        if window in self.windows:
            self.windows.remove(window)
        if not self.windows:
            self.switch.close()
        else:
            self._hand_over(window)
        window.leave(goes_alone=bool(self.windows) and not self._is_quitting)
        for feature in (self.models, self.server, self.preferences):
            feature.leave(window)
        if self.windows:
            self.closed.emit()
        else:
            self.chats.close()
            self.closing.emit()
            self.preferences.close()
            self.kept.close()
            self.toolbox.close()
            window.destroyed.connect(self.deleteLater)

    def quit(self) -> None:
        """Close all windows, unless chats could not be saved: then a person is asked first."""
        if self._may_end():
            self.close_all()

    def may_close(self, window: MainWindow) -> bool:
        """Whether a window may close; what could not be saved would go with the last one, so a person is asked."""
        return self._is_quitting or self.windows != [window] or self._may_end()

    def _may_end(self) -> bool:
        for window in self.windows:
            window.conversations.save()
        if not self.unsaved.asks():
            return True
        self.held.emit()
        return False

    def close_all(self) -> None:
        """Close all windows, the one in front last: its place is where the next start opens."""
        self._is_quitting = True
        for window in sorted(self.windows, key=lambda each: each is self._front):
            window.close()
        self._is_quitting = False

    def tell(self, notice: Notice) -> None:
        """Say something in the window in front, if there is one; in another one, once that has closed."""
        self._told.add(notice.key)
        if self.windows:
            self.front.notices.add(notice)

    def withdraw(self, key: str) -> None:
        """It is so no longer, wherever it was said."""
        for window in self.windows:
            window.notices.dismiss(key)

    def _hand_over(self, window: MainWindow) -> None:
        """Another window is in front, and says what concerns the program and is still said in the one that goes."""
        if self._front is window:
            self._front = self.windows[-1]
        newer = [each.key for each in self.front.notices.notices]
        for notice in window.notices.notices:
            if notice.key in self._told and notice.key not in newer:
                self.tell(notice)

    def _window_in_front(self) -> MainWindow:
        return self.front

    # ---- connections ------------------------------------------------------------------------------------------------

    def _connect_engine(self) -> None:
        """These hear of everything before any window does."""
        link, library, models = self.switch, self.library, self.models
        link.engine_starting.connect(library.on_engine_starting)
        link.engine_starting.connect(self._on_engine_starting)
        link.engine_stopped.connect(library.on_engine_stopped)
        link.engine_stopped.connect(models.on_engine_stopped)
        link.engine_stopped.connect(self._on_engine_stopped)
        for listener in (library, models):
            link.events_arrived.connect(listener.on_events)
        self.engines.state_changed.connect(models.show_engine_state)

    def _connect_models(self) -> None:
        library, models = self.library, self.models
        library.pair_loaded.connect(self._on_pair_loaded)
        library.pair_loaded.connect(models.on_pair_loaded)
        library.pair_unloaded.connect(self._on_pair_unloaded)
        library.load_failed.connect(self._on_load_failed)
        models.load_requested.connect(self.engines.load)
        models.cancel_requested.connect(library.cancel)
        self.theme.changed.connect(models.set_theme)
        self.preferences.changed.connect(models.on_preferences_changed)

    def _connect_server(self) -> None:
        server = self.server.controller
        self.link.engine_stopped.connect(server.on_engine_stopped)
        self.link.events_arrived.connect(server.on_events)
        self.library.state_changed.connect(server.on_engine_state)
        self.preferences.changed.connect(server.on_settings_changed)
        self.preferences.server_wanted.connect(self.server.open)

    def _connect_kept(self) -> None:
        self.link.events_arrived.connect(self.kept.on_events)
        self.preferences.changed.connect(self.kept.follow_settings)

    def _connect_notices(self) -> None:
        withdrawing = (self.unheard_stop, self.server, self.engines, self.kept, self.toolbox)
        for teller in (self.models, self.preferences, self.unsaved, *withdrawing):
            teller.notice_raised.connect(self.tell)
        for teller in withdrawing:
            teller.notice_withdrawn.connect(self.withdraw)

    def _on_settings_written(self, reason: str) -> None:
        if not reason:
            self.withdraw(SETTINGS_NOTICE)
            return
        words = tr("The settings cannot be saved in {file}: {reason}.")
        hint = tr("It is tried again with the next change.")
        file = self.settings.path.name
        self.tell(Notice(SETTINGS_NOTICE, words.format(file=file, reason=reason), hint))

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _complete_load(self, options: LoadOptions) -> LoadOptions:
        return replace(self.settings.current.complete_load(options), cache_dir=str(self.folders.cache))

    def _on_engine_starting(self) -> None:
        self.ending = None

    def _on_engine_stopped(self, ending: Failed) -> None:
        self.ending = ending

    def _on_pair_loaded(self, options: LoadOptions) -> None:
        self.settings.change(target=options.target, draft=options.draft)

    def _on_pair_unloaded(self, name: str) -> None:
        words = tr("{model} was unloaded, and its memory is free. No model is loaded.").format(model=name)
        again = self.library.load_again
        self.tell(Notice(EMPTY_NOTICE, words, action=tr("Load again"), tone=Tone.HINT, on_action=again))

    def _on_load_failed(self, failed: Failed, instead: LoadOptions | None) -> None:
        if self.models.is_open:
            self.models.on_load_failed(failed)
        else:
            words, hint = tr("Models…"), translated(failed.hint, _words_of(instead))
            self.tell(Notice(LOAD_NOTICE, failed.message, hint, action=words, on_action=self.models.open))


def _words_of(instead: LoadOptions | None) -> str:
    if instead is None:
        return ""
    is_demo = instead.target == EMBEDDED
    return tr("The embedded demo is loaded instead.") if is_demo else tr("What was loaded before is loaded instead.")
