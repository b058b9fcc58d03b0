"""The main window: what it is made of and how it is laid out; `wiring` connects the parts."""

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QShowEvent
from PySide6.QtWidgets import (
    QDockWidget,
    QHBoxLayout,
    QLabel,
    QMainWindow,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QToolBar,
    QToolButton,
    QWidget,
)

from app.chat.conversations import Conversations
from app.chat.generation.controller import ChatController
from app.chat.generation_actions import GenerationActions
from app.chat.panel import ChatPanel
from app.chat.view_options import ViewOptions
from app.comparison.feature import ComparisonFeature
from app.engine.interface import EngineSwitch
from app.engine.kept_texts import KeptConversations
from app.engine.link import EngineLink
from app.engine.state import EngineState, Phase
from app.engine.unheard_stop import UnheardStop
from app.i18n.translation import tr
from app.library.controller import LibraryController
from app.library.estimates import last_load
from app.library.feature import ModelsFeature
from app.library.remote.engines import EngineChoice
from app.server.feature import ServerFeature
from app.settings.store import SettingsFile
from app.shell.deferred import DeferredWork
from app.shell.tools import WindowTools
from app.system.paths import Folders
from app.telemetry.dock import TelemetryDock
from app.tree.dock import TreeDock
from app.ui.actions import Actions
from app.ui.colors import Colors
from app.ui.notices import NoticeStack
from app.ui.theme import Theme, application_icon, icon
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
        self.switch = EngineSwitch(link, self)
        self.settings = settings
        self._folders = folders
        self._theme = theme
        self.setWindowTitle("Coppice")
        self.setWindowIcon(application_icon())
        previous = last_load(settings.current, LoadOptions(settings.current.target, settings.current.draft))
        self.library = LibraryController(link, wanted, previous, self, self._complete_load)
        self.engines = EngineChoice(self.switch, self.library, settings, link.ids)
        self.chat = ChatController(self.switch, settings, self)
        self.unheard_stop = UnheardStop(link, self)
        self.notices = NoticeStack()
        self.conversations = Conversations(self.chat, folders.chats_file, theme.colors, self)
        self.chat_panel = ChatPanel(theme.colors, self.notices, self)
        self.deferred = DeferredWork(self)
        self.tree = TreeDock(self)
        self.telemetry = TelemetryDock(self.switch, theme.colors, self, self.deferred.do)
        run = self.telemetry.comparison.run
        self.comparison = ComparisonFeature(self.chat, self.conversations, run, theme.colors, self)
        self.status_area = StatusArea(self)
        self.models = ModelsFeature(link, settings, folders, theme.colors, self, self.engines)
        self.server = ServerFeature(link, settings, self)
        self.generation_actions = GenerationActions(self.switch, self.chat, self.chat_panel, settings, self)
        self.generation = self.generation_actions.popover
        self.view_options = ViewOptions(self.chat_panel, settings, self)
        self.actions_ = Actions(self)
        self.kept = KeptConversations(link, settings, folders.cache, self)
        self.tools = WindowTools(self, settings, folders, theme, self.kept)
        self._lay_out()

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
        self.statusBar().addPermanentWidget(self.server.indicator)
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

    def begin(self) -> None:
        """Take up the last layout and let the settings take effect; for when all parts are connected."""
        self.set_theme(self._theme.colors)
        self._restore()
        self.tools.begin()
        self.deferred.do(self.tree.make_panel)
        self.chat_panel.setFocus()

    def open_models(self) -> None:
        """Show the Models dialog."""
        self.models.open()

    def open_generation(self) -> None:
        """Show the generation settings below their button."""
        self.generation.open_below(self._generation_button)

    def _complete_load(self, options: LoadOptions) -> LoadOptions:
        return replace(self.settings.current.complete_load(options), cache_dir=str(self._folders.cache))

    def set_theme(self, colors: Colors) -> None:
        """Change the colours of every part."""
        self.chat_panel.set_theme(colors)
        self.conversations.panel.set_theme(colors)
        self.tree.set_theme(colors)
        self.telemetry.set_theme(colors)
        self.models.set_theme(colors)
        self.comparison.set_theme(colors)
        for action, name in self.actions_.with_icons():
            action.setIcon(icon(name, colors.text))

    # ---- beginning and end ------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """The engine starts when the window is on its way to the screen, not before."""
        super().showEvent(event)
        self.conversations.start()
        self.models.start()
        if not self.link.isRunning():
            self.server.controller.begin()
            self.link.start()

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        """Remember the layout and send the engine away; it may take a moment longer than the window."""
        self.settings.change(geometry=_pack(self.saveGeometry()), docks=_pack(self.saveState(_LAYOUT_VERSION)))
        parts = (self.comparison.leave, self.conversations.close, self.models.leave, self.server.leave)
        for leave in (self.switch.close, *parts, self.chat_panel.leave, self.kept.close):
            leave()
        self.tools.close()
        super().closeEvent(event)


_BAR_WIDTH = 120


class StatusArea(QWidget):
    """Shows the engine's state; while it loads, its progress and a button that cancels it."""

    cancel_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = EngineState()
        self._answering = False
        self._dot = QLabel(self)
        self._dot.setObjectName("dot")
        self.words = QLabel(self)
        self.words.setObjectName("status")
        self.words.setAccessibleName(tr("Engine state"))
        self.progress = QProgressBar(self)
        self.progress.setTextVisible(False)
        self.progress.setFixedWidth(_BAR_WIDTH)
        self.progress.setAccessibleName(tr("Loading progress"))
        self.cancel = QPushButton(tr("Cancel"), self)
        self.cancel.setObjectName("small")
        self.cancel.setAccessibleName(tr("Cancel loading"))
        self.cancel.clicked.connect(self.cancel_requested)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 3, 8, 3)
        row.setSpacing(8)
        for widget in (self._dot, self.words, self.progress, self.cancel):
            row.addWidget(widget)
        row.addStretch(1)
        self._show()

    def show_engine_state(self, state: EngineState) -> None:
        """Show what the engine does."""
        self._state = state
        self._show()

    def show_answering(self, answering: bool) -> None:
        """Show whether a question is being answered."""
        self._answering = answering
        self._show()

    def _show(self) -> None:
        state = self._state
        loading = state.phase is Phase.LOADING
        self.words.setText(tr("Answering") if self._answering and state.ready else state.words)
        self.progress.setVisible(loading)
        self.progress.setRange(0, state.total)  # an empty range shows that something goes on
        self.progress.setValue(state.done)
        self.cancel.setVisible(loading)
        self._dot.setProperty("phase", "answering" if self._answering and state.ready else state.phase.value)
        self._dot.style().unpolish(self._dot)
        self._dot.style().polish(self._dot)


def _pack(state: QByteArray) -> str:
    return state.toBase64().toStdString()


def _unpack(stored: str) -> QByteArray:
    return QByteArray.fromBase64(stored.encode())
