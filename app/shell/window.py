"""The main window: it lays the rooms out and connects them; what they do is theirs."""

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QSize, Qt
from PySide6.QtGui import QCloseEvent, QShowEvent
from PySide6.QtWidgets import QDockWidget, QMainWindow, QSizePolicy, QToolBar, QToolButton, QWidget

from app.chat.conversations import Conversations
from app.chat.generation.controller import ChatController
from app.chat.panel import ChatPanel
from app.chat.reading import Reading
from app.chat.steering import Steering
from app.engine.link import EngineLink
from app.engine.unheard_stop import UNHEARD_NOTICE, UnheardStop
from app.i18n.translation import tr
from app.library.controller import LibraryController
from app.library.room import ModelsRoom
from app.library.terms_memory import last_load
from app.settings.store import SettingsFile
from app.shell.afterwards import Afterwards
from app.shell.status_area import StatusArea
from app.shell.tree_wiring import TreeRoom, connect_figures
from app.shell.window_tools import WindowTools
from app.system.paths import Folders
from app.telemetry.dock import TelemetryDock
from app.ui.actions import Actions
from app.ui.notices import Notice, NoticeStack
from app.ui.theme import Colors, Theme, application_icon, icon
from engine.protocol.messages import Failed
from engine.protocol.options import LoadOptions

if TYPE_CHECKING:
    from app.tree.panel import TreePanel

ENGINE_NOTICE = "engine-stopped"
LOAD_NOTICE = "load-failed"

_SIZE = (1400, 860)
_CHATS_WIDTH = 240
_TREE_WIDTH = 440
_LAYOUT_VERSION = 2


class MainWindow(QMainWindow):
    """Chat in the middle, the tree at its side, the engine's state below."""

    def __init__(
        self, link: EngineLink, settings: SettingsFile, folders: Folders, theme: Theme, wanted: LoadOptions
    ) -> None:
        super().__init__()
        self.link = link
        self.settings = settings
        self._folders = folders
        self._theme = theme
        self.setWindowTitle("Coppice")
        self.setWindowIcon(application_icon())
        previous = last_load(settings.current, LoadOptions(settings.current.target, settings.current.draft))
        self.library = LibraryController(link, wanted, previous, self, self._complete_load)
        self.chat = ChatController(link, settings, self)
        self.unheard_stop = UnheardStop(link, self)
        self.notices = NoticeStack()
        self.conversations = Conversations(self.chat, folders.chats_file, theme.colors, self)
        self.chat_panel = ChatPanel(theme.colors, self.notices, self)
        self.afterwards = Afterwards(self)
        self.tree = TreeRoom(self)
        self.telemetry = TelemetryDock(link, theme.colors, self, self.afterwards.do)
        self.status_area = StatusArea(self)
        self.models = ModelsRoom(link, settings, folders, theme.colors, self)
        self.steering = Steering(link, self.chat, self.chat_panel, settings, self)
        self.generation = self.steering.popover
        self.reading = Reading(self.chat_panel, settings, self)
        self.actions_ = Actions(self)
        self.tools = WindowTools(self, settings, folders, theme)
        self._lay_out()
        self._connect_rooms()
        self._connect_actions()
        self._set_theme(theme.colors)
        self._restore()
        self.tools.begin()
        self.afterwards.do(self.tree.furnish)
        self.chat_panel.setFocus()

    @property
    def tree_panel(self) -> "TreePanel":
        """The speculation tree, made a moment after the first paint, or now."""
        return self.tree.panel

    # ---- layout -----------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)  # it could hide the tool bar
        self.setCentralWidget(self.chat_panel)
        beginning, end = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea
        if self.isRightToLeft():
            beginning, end = end, beginning
        self.chats_dock = QDockWidget(tr("Chats"), self)
        self.chats_dock.setObjectName("chats")
        self.chats_dock.setWidget(self.conversations.panel)
        self.addDockWidget(beginning, self.chats_dock)
        self.tree_dock = self.tree.dock
        self.addDockWidget(end, self.tree_dock)
        self.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, self.telemetry.dock)
        self.statusBar().addWidget(self.status_area, 1)
        self.statusBar().addPermanentWidget(self.models.indicator)
        self.statusBar().setSizeGripEnabled(False)
        bar = self._build_tool_bar()
        self.addToolBar(bar)
        parts = (self.chat_panel.composer, self.tree_dock, bar, self.conversations.panel, self.chat_panel.view)
        self.tools.set_panes(parts, self.actions_)

    def _build_tool_bar(self) -> QToolBar:
        bar = QToolBar(tr("Tools"), self)
        bar.setObjectName("tools")
        bar.setMovable(False)
        bar.setIconSize(QSize(18, 18))
        bar.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        gap = QWidget(bar)
        gap.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        bar.addAction(self.actions_.chats)
        bar.addAction(self.actions_.new_chat)
        bar.addWidget(gap)
        for action in (self.actions_.models, self.actions_.generation, self.actions_.telemetry, self.actions_.tree):
            bar.addAction(action)
        self._generation_button = bar.widgetForAction(self.actions_.generation)
        for button in bar.findChildren(QToolButton):
            button.setAccessibleName(button.text())
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return bar

    def _restore(self) -> None:
        """Take up the last size and place, as far as a screen is still there for it."""
        stored = self.settings.current
        if not self.restoreGeometry(_unpack(stored.geometry)):
            self.resize(*_SIZE)
        if not self.restoreState(_unpack(stored.docks), _LAYOUT_VERSION):
            docks, widths = [self.chats_dock, self.tree_dock], [_CHATS_WIDTH, _TREE_WIDTH]
            self.resizeDocks(docks, widths, Qt.Orientation.Horizontal)

    # ---- connections ------------------------------------------------------------------------------------------------

    def _connect_rooms(self) -> None:
        """Every connection between rooms, and between them and the engine, is made here."""
        link, library, models, chat = self.link, self.library, self.models, self.chat
        link.engine_starting.connect(library.on_engine_starting)
        link.engine_starting.connect(self._on_engine_starting)
        link.engine_stopped.connect(library.on_engine_stopped)
        link.engine_stopped.connect(models.on_engine_stopped)
        link.engine_stopped.connect(self._on_engine_stopped)
        for room in (library.on_events, models.on_events, chat.on_events, self.telemetry.on_events):
            link.events_arrived.connect(room)
        link.events_arrived.connect(self.steering.counter.on_events)
        library.state_changed.connect(chat.on_engine_state)
        library.state_changed.connect(self.steering.counter.on_engine_state)
        library.state_changed.connect(self.chat_panel.show_engine_state)
        library.state_changed.connect(self.status_area.show_engine_state)
        library.state_changed.connect(models.show_engine_state)
        library.state_changed.connect(self.telemetry.on_engine_state)
        library.pair_loaded.connect(self._on_pair_loaded)
        library.pair_loaded.connect(models.on_pair_loaded)
        library.load_failed.connect(self._on_load_failed)
        models.load_requested.connect(library.load)
        models.cancel_requested.connect(library.cancel)
        models.notice_raised.connect(self.notices.add)
        self.status_area.cancel_requested.connect(library.cancel)
        self.chat_panel.follow(chat)
        chat.answering_changed.connect(self.status_area.show_answering)
        chat.answering_changed.connect(self._on_answering_changed)
        self.tree.follow(link, chat, self.settings, self.conversations.rounds, self.chat_panel.view, self.reading)
        connect_figures(self.telemetry, self.conversations.rounds)
        chat.asked.connect(self.telemetry.on_asked)
        chat.conversation_replaced.connect(self.telemetry.clear)
        for told in (chat, self.conversations, self.unheard_stop):
            told.notice_raised.connect(self.notices.add)
            told.notice_withdrawn.connect(self.notices.dismiss)
        self.notices.action_requested.connect(self._on_notice_action)
        self.notices.diagnostics_requested.connect(self.actions_.copy_diagnostics.trigger)
        self.tools.notice_raised.connect(self.notices.add)
        self.tools.preferences_changed.connect(self._on_preferences_changed)
        self._theme.changed.connect(self._set_theme)

    def _connect_actions(self) -> None:
        do = self.actions_
        do.new_chat.triggered.connect(self.chat.start_new_chat)
        self.conversations.connect_actions(do)
        self.conversations.panel.shown_wanted.connect(self.chats_dock.show)
        do.search_chats.triggered.connect(self._on_search_chats)
        do.chats.triggered.connect(self._on_chats_triggered)
        self.chats_dock.toggleViewAction().toggled.connect(do.chats.setChecked)
        do.models.triggered.connect(self.open_models)
        do.restart_engine.triggered.connect(self.library.restart)
        do.quit.triggered.connect(self.close)
        do.stop.triggered.connect(self.chat.stop)
        do.regenerate.triggered.connect(self.chat.regenerate)
        do.write.triggered.connect(lambda _checked: self.chat_panel.setFocus())
        do.tree.triggered.connect(self._on_tree_triggered)
        self.tree_dock.toggleViewAction().toggled.connect(do.tree.setChecked)
        self.telemetry.follow(do.telemetry, self.tree.show_round_of)
        do.generation.triggered.connect(self.open_generation)
        self.steering.connect_actions(do)
        self.reading.connect_actions(do)
        do.full_screen.toggled.connect(self._on_full_screen)
        self.tools.follow(do, self.conversations, self.library, self.models)
        self._on_answering_changed(False)

    # ---- slots ------------------------------------------------------------------------------------------------------

    def open_models(self) -> None:
        """Show the Models dialog."""
        self.models.open()

    def open_generation(self) -> None:
        """Show the generation settings below their button."""
        self.generation.open_below(self._generation_button)

    def _complete_load(self, options: LoadOptions) -> LoadOptions:
        return replace(self.settings.current.complete_load(options), cache_dir=str(self._folders.cache))

    def _on_engine_starting(self) -> None:
        self.notices.dismiss(ENGINE_NOTICE)

    def _on_engine_stopped(self, ending: Failed) -> None:
        self.notices.add(Notice(ENGINE_NOTICE, ending.message, ending.hint, action=tr("Restart engine")))

    def _on_pair_loaded(self, options: LoadOptions) -> None:
        self.settings.change(target=options.target, draft=options.draft)

    def _on_load_failed(self, failed: Failed) -> None:
        if self.models.is_open:
            self.models.on_load_failed(failed)
        else:
            self.notices.add(Notice(LOAD_NOTICE, failed.message, failed.hint, action=tr("Models…")))

    def _on_notice_action(self, key: str) -> None:
        actions = {
            **dict.fromkeys((ENGINE_NOTICE, UNHEARD_NOTICE), self.library.restart),
            LOAD_NOTICE: self.open_models,
            **(self.models.notice_actions | self.tools.notice_actions | self.conversations.notice_actions),
        }
        actions[key]()

    def _on_answering_changed(self, answering: bool) -> None:
        self.actions_.stop.setEnabled(answering)
        self.actions_.regenerate.setEnabled(not answering and not self.chat.conversation.is_empty)

    def _on_chats_triggered(self, shown: bool) -> None:
        self.chats_dock.setVisible(shown)

    def _on_tree_triggered(self, shown: bool) -> None:
        self.tree_dock.setVisible(shown)

    def _on_search_chats(self) -> None:
        self.chats_dock.show()
        self.conversations.panel.search.setFocus()
        self.conversations.panel.search.selectAll()

    def _on_full_screen(self, full: bool) -> None:
        self.setWindowState(Qt.WindowState.WindowFullScreen if full else Qt.WindowState.WindowNoState)

    def _on_preferences_changed(self) -> None:
        self.chat_panel.composer.field.sends_with_ctrl = self.settings.current.send_key == "ctrl-return"
        self.reading.follow_settings()

    def _set_theme(self, colors: Colors) -> None:
        self.chat_panel.set_theme(colors)
        self.conversations.panel.set_theme(colors)
        self.tree.set_theme(colors)
        self.telemetry.set_theme(colors)
        self.models.set_theme(colors)
        for action, name in self.actions_.with_icons():
            action.setIcon(icon(name, colors.text))

    # ---- beginning and end ------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """The engine starts when the window is on its way to the screen, not before."""
        super().showEvent(event)
        self.conversations.start()
        self.models.start()
        if not self.link.isRunning():
            self.link.start()

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        """Remember the layout and send the engine away; it may take a moment longer than the window."""
        self.settings.change(geometry=_pack(self.saveGeometry()), docks=_pack(self.saveState(_LAYOUT_VERSION)))
        for leave in (self.link.close, self.conversations.close, self.models.leave, self.chat_panel.leave):
            leave()
        self.tools.close()
        super().closeEvent(event)


def _pack(state: QByteArray) -> str:
    return state.toBase64().toStdString()


def _unpack(stored: str) -> QByteArray:
    return QByteArray.fromBase64(stored.encode())
