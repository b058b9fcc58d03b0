"""The main window: it lays the rooms out and connects them; what they do is theirs."""

from PySide6.QtCore import QByteArray, QSize, Qt, QUrl
from PySide6.QtGui import QCloseEvent, QDesktopServices, QShowEvent
from PySide6.QtWidgets import QDockWidget, QMainWindow, QSizePolicy, QToolBar, QToolButton, QWidget

from app.actions import Actions
from app.chat.controller import NEW_CHAT_NOTICE, ChatController
from app.chat.generation_popover import GenerationPopover
from app.chat.panel import ChatPanel
from app.engine_link import EngineLink
from app.help import about_box, shortcuts_box
from app.library.controller import LibraryController
from app.library.dialog import ModelsDialog
from app.notices import Notice, NoticeStack
from app.paths import Folders
from app.settings import SettingsFile
from app.status_area import StatusArea
from app.theme import Colors, Theme, application_icon, icon
from app.tree.panel import TreePanel
from engine import __version__
from engine.messages import Failed
from engine.options import LoadOptions

ENGINE_NOTICE = "engine-stopped"
LOAD_NOTICE = "load-failed"

_SIZE = (1240, 800)
_TREE_WIDTH = 480
_LAYOUT_VERSION = 1


class MainWindow(QMainWindow):
    """Chat in the middle, the tree at its side, the engine's state below."""

    def __init__(
        self, link: EngineLink, settings: SettingsFile, folders: Folders, theme: Theme, wanted: LoadOptions
    ) -> None:
        super().__init__()
        self.link = link
        self._settings = settings
        self._folders = folders
        self._theme = theme
        self.setWindowTitle("Coppice")
        self.setWindowIcon(application_icon())
        previous = LoadOptions(settings.current.target, settings.current.draft)
        self.library = LibraryController(link, wanted, previous, self, cache_dir=str(folders.cache))
        self.chat = ChatController(link, settings, self)
        self.notices = NoticeStack()
        self.chat_panel = ChatPanel(theme.colors, self.notices, self)
        self.tree_panel = TreePanel(self)
        self.status_area = StatusArea(self)
        self.models_dialog = ModelsDialog(self)
        self.generation = GenerationPopover(settings, self)
        self.actions_ = Actions(self)
        self._lay_out()
        self._connect_rooms()
        self._connect_actions()
        self._set_theme(theme.colors)
        self._restore()
        self.chat_panel.setFocus()

    # ---- layout -----------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)  # it could hide the tool bar
        self.setCentralWidget(self.chat_panel)
        self.tree_dock = QDockWidget("Speculation tree", self)
        self.tree_dock.setObjectName("tree")
        self.tree_dock.setWidget(self.tree_panel)
        self.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.tree_dock)
        self.statusBar().addWidget(self.status_area, 1)
        self.statusBar().setSizeGripEnabled(False)
        self.addToolBar(self._build_tool_bar())

    def _build_tool_bar(self) -> QToolBar:
        bar = QToolBar("Tools", self)
        bar.setObjectName("tools")
        bar.setMovable(False)
        bar.setIconSize(QSize(18, 18))
        bar.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        gap = QWidget(bar)
        gap.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        bar.addAction(self.actions_.new_chat)
        bar.addWidget(gap)
        for action in (self.actions_.models, self.actions_.generation, self.actions_.tree):
            bar.addAction(action)
        self._generation_button = bar.widgetForAction(self.actions_.generation)
        for button in bar.findChildren(QToolButton):
            button.setAccessibleName(button.text())
        return bar

    def _restore(self) -> None:
        """Take up the last size and place, as far as a screen is still there for it."""
        stored = self._settings.current
        if not self.restoreGeometry(_unpack(stored.geometry)):
            self.resize(*_SIZE)
        if not self.restoreState(_unpack(stored.docks), _LAYOUT_VERSION):
            self.resizeDocks([self.tree_dock], [_TREE_WIDTH], Qt.Orientation.Horizontal)

    # ---- connections ------------------------------------------------------------------------------------------------

    def _connect_rooms(self) -> None:
        """Every connection between rooms, and between them and the engine, is made here."""
        link, library, chat = self.link, self.library, self.chat
        link.engine_starting.connect(library.on_engine_starting)
        link.engine_starting.connect(self._on_engine_starting)
        link.engine_stopped.connect(library.on_engine_stopped)
        link.engine_stopped.connect(self._on_engine_stopped)
        link.events_arrived.connect(library.on_events)
        link.events_arrived.connect(chat.on_events)
        library.state_changed.connect(chat.on_engine_state)
        library.state_changed.connect(self.chat_panel.show_engine_state)
        library.state_changed.connect(self.status_area.show_engine_state)
        library.state_changed.connect(self.models_dialog.show_engine_state)
        library.pair_loaded.connect(self._on_pair_loaded)
        library.pair_loaded.connect(self.models_dialog.on_pair_loaded)
        library.load_failed.connect(self._on_load_failed)
        self.models_dialog.load_requested.connect(library.load)
        self.status_area.cancel_requested.connect(library.cancel)
        self.chat_panel.follow(chat)
        chat.answering_changed.connect(self.status_area.show_answering)
        chat.answering_changed.connect(self._on_answering_changed)
        chat.round_arrived.connect(self.tree_panel.show_round)
        chat.conversation_replaced.connect(self.tree_panel.clear)
        chat.notice_raised.connect(self.notices.add)
        chat.notice_withdrawn.connect(self.notices.dismiss)
        self.notices.action_requested.connect(self._on_notice_action)
        self._theme.changed.connect(self._set_theme)

    def _connect_actions(self) -> None:
        do = self.actions_
        do.new_chat.triggered.connect(self.chat.start_new_chat)
        do.models.triggered.connect(self.open_models)
        do.restart_engine.triggered.connect(self.library.restart)
        do.quit.triggered.connect(self.close)
        do.stop.triggered.connect(self.chat.stop)
        do.regenerate.triggered.connect(self.chat.regenerate)
        do.copy_answer.triggered.connect(self.chat_panel.view.copy_last_answer)
        do.write.triggered.connect(self.chat_panel.setFocus)
        do.tree.triggered.connect(self._on_tree_triggered)
        self.tree_dock.toggleViewAction().toggled.connect(do.tree.setChecked)
        do.generation.triggered.connect(self.open_generation)
        do.full_screen.toggled.connect(self._on_full_screen)
        do.shortcuts.triggered.connect(lambda: shortcuts_box(do.listed, self).open())
        do.log_folder.triggered.connect(self._open_log_folder)
        do.about.triggered.connect(lambda: about_box(__version__, self).open())
        self._on_answering_changed(False)

    # ---- slots ------------------------------------------------------------------------------------------------------

    def open_models(self) -> None:
        """Show the Models dialog with the pair that is loaded."""
        self.models_dialog.show_pair(self.library.wanted)
        self.models_dialog.open()

    def open_generation(self) -> None:
        """Show the generation settings below their button."""
        self.generation.open_below(self._generation_button)

    def _on_engine_starting(self) -> None:
        self.notices.dismiss(ENGINE_NOTICE)

    def _on_engine_stopped(self, ending: Failed) -> None:
        self.notices.add(Notice(ENGINE_NOTICE, ending.message, ending.hint, action="Restart engine"))

    def _on_pair_loaded(self, options: LoadOptions) -> None:
        self._settings.change(target=options.target, draft=options.draft)

    def _on_load_failed(self, failed: Failed) -> None:
        if self.models_dialog.isVisible():
            self.models_dialog.on_load_failed(failed)
        else:
            self.notices.add(Notice(LOAD_NOTICE, failed.message, failed.hint, action="Models…"))

    def _on_notice_action(self, key: str) -> None:
        actions = {
            ENGINE_NOTICE: self.library.restart,
            LOAD_NOTICE: self.open_models,
            NEW_CHAT_NOTICE: self.chat.undo_new_chat,
        }
        actions[key]()

    def _on_answering_changed(self, answering: bool) -> None:
        self.actions_.stop.setEnabled(answering)
        self.actions_.regenerate.setEnabled(not answering and not self.chat.conversation.is_empty)

    def _on_tree_triggered(self, shown: bool) -> None:
        self.tree_dock.setVisible(shown)

    def _on_full_screen(self, full: bool) -> None:
        self.setWindowState(Qt.WindowState.WindowFullScreen if full else Qt.WindowState.WindowNoState)

    def _open_log_folder(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._folders.logs)))

    def _set_theme(self, colors: Colors) -> None:
        self.chat_panel.set_theme(colors)
        self.tree_panel.set_theme(colors.is_dark)
        for action, name in self.actions_.with_icons():
            action.setIcon(icon(name, colors.text))

    # ---- beginning and end ------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """The engine starts when the window is on its way to the screen, not before."""
        super().showEvent(event)
        if not self.link.isRunning():
            self.link.start()

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        """Remember the layout and send the engine away; it may take a moment longer than the window."""
        self._settings.change(geometry=_pack(self.saveGeometry()), docks=_pack(self.saveState(_LAYOUT_VERSION)))
        self.link.close()
        super().closeEvent(event)


def _pack(state: QByteArray) -> str:
    return state.toBase64().toStdString()


def _unpack(stored: str) -> QByteArray:
    return QByteArray.fromBase64(stored.encode())
