"""A window: what it is made of and how it is laid out; `window_wiring` connects the parts."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QEvent, QPoint, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QCloseEvent, QDragEnterEvent, QDragLeaveEvent, QDropEvent, QMouseEvent, QShowEvent
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

from app.chat.composer.attachment_reader import RECORDING
from app.chat.composer.fields import files_of
from app.chat.composer.pictures import has_picture, picture_in
from app.chat.conversations import Conversations
from app.chat.finding_actions import FindingActions
from app.chat.generation.controller import ChatController
from app.chat.generation_actions import GenerationActions
from app.chat.history.answering import reading_words, waiting_words
from app.chat.history.message import Message
from app.chat.panel import ChatPanel
from app.chat.view_options import ViewOptions
from app.comparison.feature import ComparisonFeature
from app.engine.asker import Asker
from app.engine.state import EngineState, Phase
from app.i18n.translation import tr
from app.shell.deferred import DeferredWork
from app.shell.tools import WindowTools
from app.system.plain_text import tip
from app.telemetry.dock import TelemetryDock
from app.tree.dock import TreeDock
from app.ui.actions import Actions
from app.ui.colors import Colors
from app.ui.dock_widths import DockWidths
from app.ui.file_dialogs import last_folder
from app.ui.notices import Notice, NoticeStack, Tone
from app.ui.theme import application_icon, icon
from app.ui.widgets import FRAME, CutLabel, fit_screen
from engine.protocol.messages import Failed

if TYPE_CHECKING:
    from app.chat.generation.popover import GenerationPopover
    from app.shell.program import Program
    from app.shell.tour.tour import Tour
    from app.tree.panel import TreePanel

ENGINE_NOTICE, EMPTY_NOTICE = "engine-stopped", "no-model"

_SIZE = QSize(1400, 860)
_CHATS_WIDTH = 240
_TREE_WIDTH = 440
_LAYOUT_VERSION = 2
_STEP = 36  # pixels between a window and the one that it was opened from
_SEEN = 300  # so many of either direction are to be on the screen


class MainWindow(QMainWindow):
    """Chat in the middle, the tree at its side, the engine's state below.

    What it shares with other windows is the program's: `link` to `unheard_stop` are shortcuts to that. `engine` asks
    for this window alone.
    """

    def __init__(self, program: "Program", number: int) -> None:
        """`number`: from 1 on; who asks the engine."""
        super().__init__()
        self.program = program
        self.link, self.switch, self.settings = program.link, program.switch, program.settings
        self.library, self.engines, self.models = program.library, program.engines, program.models
        self.server, self.unheard_stop = program.server, program.unheard_stop
        theme, settings = program.theme, program.settings
        self.setWindowTitle("Coppice")
        self.setWindowIcon(application_icon())
        self.setAcceptDrops(True)
        self.engine = Asker(program.switch, number, self)
        self.chat = ChatController(self.engine, settings, self)
        self.notices = NoticeStack()
        self.conversations = Conversations(self.chat, program.chats, theme.colors, self, number)
        self.chat_panel = ChatPanel(theme.colors, self.notices, self)
        self.chat_panel.welcome.expect(program.library.wanted.target)

    def build(self) -> None:
        """Make what stands around the chat; a step of its own, as all at once would keep another window waiting."""
        program, theme, settings = self.program, self.program.theme, self.settings
        self.deferred = DeferredWork(self)
        self.tree = TreeDock(self)
        self.telemetry = TelemetryDock(self.engine, theme.colors, self, self.deferred.do)
        run = self.telemetry.comparison.run
        self.comparison = ComparisonFeature(self.chat, self.conversations, run, theme.colors, self)
        self.status_area = StatusArea(self)
        self.server_indicator = program.server.make_indicator(self)
        self.download_indicator = program.models.make_indicator(self)
        self.generation_actions = GenerationActions(self.engine, self.chat, self.chat_panel, settings, self)
        self.finding = FindingActions(self.chat_panel, self.chat, self.conversations, self)
        self.view_options = ViewOptions(self.chat_panel, settings, self)
        self.actions_ = Actions(self)
        self.tools = WindowTools(self, settings, program.folders, theme)
        self._lay_out()

    @property
    def tree_panel(self) -> "TreePanel":
        """The speculation tree, made a moment after the first paint, or now."""
        return self.tree.panel

    @property
    def generation(self) -> "GenerationPopover":
        """The generation settings, made when they are first asked for."""
        return self.generation_actions.popover

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
        self._dock_widths = DockWidths(self, (self.chats_dock, self.tree_dock))
        self._floating: list[QDockWidget] = []  # that wait for this window
        self.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, self.telemetry.dock)
        self.statusBar().addWidget(self.status_area, 1)
        self.statusBar().addPermanentWidget(self.server_indicator)
        self.statusBar().addPermanentWidget(self.download_indicator)
        self.statusBar().setSizeGripEnabled(False)
        bar = self._build_tool_bar()
        self.addToolBar(bar)
        chat, docks = self.chat_panel, (self.tree_dock, self.telemetry.dock)
        parts = (chat.composer, self.notices, *docks, bar, self.conversations.panel, chat.view)
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
        self._bar = bar
        self._generation_button = bar.widgetForAction(self.actions_.generation)
        for button in bar.findChildren(QToolButton):
            button.setAccessibleName(button.text())
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return bar

    def tool_button(self, action: QAction) -> QWidget | None:
        """The button of an action in the tool bar; a narrow window may hide it."""
        return self._bar.widgetForAction(action)

    @cached_property
    def tour(self) -> "Tour":
        """The tour of the first run; made when it is offered, or asked for."""
        from app.shell.tour.tour import Tour  # noqa: PLC0415

        return Tour(self)

    def _restore(self, beside: "MainWindow | None") -> None:
        """Take up the size and place of another window, or the last ones as far as a screen is still there for them."""
        stored = self.settings.current
        layout = beside.saveState(_LAYOUT_VERSION) if beside else _unpack(stored.docks)
        if beside:
            place = _place_beside(beside)
            room = QRect(place, beside.screen().availableGeometry().bottomRight()).size() - FRAME
            self.resize(beside.normalGeometry().size().boundedTo(room))
            self.move(place)
        elif not self.restoreGeometry(_unpack(stored.geometry)):
            fit_screen(self, _SIZE)
        if self.restoreState(layout, _LAYOUT_VERSION):
            self._dock_widths.expect(beside._dock_widths.wanted if beside else stored.dock_widths)
        else:
            self._dock_widths.lay_out(_CHATS_WIDTH, _TREE_WIDTH)
        docks = (self.chats_dock, self.tree_dock, self.telemetry.dock)
        for dock in (each for each in docks if each.isFloating()):
            if dock.isVisible():
                dock.hide()  # on the screen before its window it would be nobody's, and lie below the window
                self._floating.append(dock)
            if beside:  # else it would cover that of the other window
                dock.move(_whole(dock, _place_beside(dock)))

    def begin(self, beside: "MainWindow | None" = None) -> None:
        """Take up the last layout, or that of another window; for when all parts are connected."""
        self.set_theme(self.program.theme.colors)
        self._restore(beside)
        self.deferred.do(self.tree.make_panel)
        self.chat_panel.setFocus()

    def offer_tour(self) -> None:
        """Let the tour come by itself, if it is wanted."""
        self.tour.offer()

    def begin_tour(self) -> None:
        """Show the tour."""
        self.tour.begin()

    def open_models(self) -> None:
        """Show the Models dialog."""
        self.models.open()

    def open_file(self, file: Path) -> None:
        """Show a recording beside the conversation, or a model in the Models dialog."""
        if file.suffix.casefold() == RECORDING:
            self.open_recording(file)
        else:
            self.models.open_with(file)

    def open_recording(self, file: Path) -> None:
        """Show a recording beside the conversation."""
        self.tree_dock.show()
        self.tree_panel.exports.open_from(file)

    def open_generation(self) -> None:
        """Show the generation settings below their button."""
        self.generation.open_below(self._generation_button)

    def show_title(self) -> None:
        """Have the list of open windows tell one chat from the other."""
        autosave = self.conversations.autosave
        record = autosave.record(autosave.current)
        self.setWindowTitle(f"{record.shown_title} – Coppice" if record else "Coppice")

    def set_theme(self, colors: Colors) -> None:
        """Change the colours of every part."""
        self.chat_panel.set_theme(colors)
        self.finding.set_theme()
        self.conversations.panel.set_theme(colors)
        self.tree.set_theme(colors)
        self.telemetry.set_theme(colors)
        self.comparison.set_theme(colors)
        for action, name in self.actions_.with_icons():
            action.setIcon(icon(name, colors.text))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802
        """Files and pictures may be dropped anywhere."""
        if files_of(event.mimeData()) or has_picture(event.mimeData()):
            event.acceptProposedAction()
            self.chat_panel.composer.show_drop(True)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:  # noqa: N802
        """They are taken elsewhere."""
        super().dragLeaveEvent(event)
        self.chat_panel.composer.show_drop(False)

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        """They go with the question."""
        self.chat_panel.composer.show_drop(False)
        composer, dropped = self.chat_panel.composer, event.mimeData()
        if files := files_of(dropped):
            composer.attach(files)
        elif (picture := picture_in(dropped)) is not None:
            composer.tray.add_picture(picture)
        event.acceptProposedAction()
        self.chat_panel.setFocus()

    # ---- beginning and end ------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """The engine starts when the window is on its way to the screen, not before."""
        super().showEvent(event)
        self.program.start()
        QTimer.singleShot(0, self, self._show_floating)

    def _show_floating(self) -> None:
        """Panes that have been restored in windows of their own, once this one is on the screen."""
        for dock in self._floating:
            dock.show()
        self._floating.clear()

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802
        """Tab goes through the messages as they stand now."""
        self.chat_panel.view.order_focus()
        return super().focusNextPrevChild(forward)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Tell the program which window is worked in, and the menu whether it fills the screen, by whomever."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.WindowStateChange:
            self.actions_.full_screen.setChecked(self.isFullScreen())
        if event.type() == QEvent.Type.ActivationChange and self.isActiveWindow():
            self.program.on_activated(self)

    def come_forward(self) -> None:
        """Be seen, in front of all others, as large as before."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.raise_()
        self.activateWindow()
        self.program.on_activated(self)

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        """Remember the layout and where files were chosen, and leave the program."""
        if not self.program.may_close(self):
            event.ignore()
            return
        layout, docks = _pack(self.saveGeometry()), _pack(self.saveState(_LAYOUT_VERSION))
        widths = self._dock_widths.wanted
        self.settings.change(geometry=layout, docks=docks, dock_widths=widths, files_folder=last_folder())
        self.program.on_closed(self)
        super().closeEvent(event)

    def leave(self, goes_alone: bool) -> None:
        """Write what is new; where other windows stay, end what was asked here, and be gone for good."""
        self.deferred.stop()
        if goes_alone:
            self.chat.leave()
            self.engine.close()
            self.deleteLater()
        for part in (self.comparison, self.conversations, self.chat_panel, self.tree):
            part.leave()

    # ---- notices ----------------------------------------------------------------------------------------------------

    def tell_of_stopped_engine(self, ending: Failed) -> None:
        """Say why the engine has stopped, and offer to start it anew."""
        words = tr("Restart engine")
        restart = self.library.restart
        self.notices.add(Notice(ENGINE_NOTICE, ending.message, ending.hint, action=words, on_action=restart))

    def tell_of_missing_engine(self) -> None:
        """Say why nothing answers, and offer what helps; an engine elsewhere is looked for again at once."""
        state, ending = self.engines.state, self.program.ending
        if state.host:
            self.engines.reconnect()
        elif state.phase is Phase.STOPPED and ending is not None:
            self.tell_of_stopped_engine(ending)
        elif state.phase is Phase.EMPTY and EMPTY_NOTICE not in (each.key for each in self.notices.notices):
            words, choose = tr("No model is loaded."), tr("Models…")
            self.notices.add(Notice(EMPTY_NOTICE, words, action=choose, tone=Tone.HINT, on_action=self.open_models))


_BAR_WIDTH = 120


class StatusArea(QWidget):
    """Shows the engine's state; while it loads, its progress and a button that cancels it."""

    cancel_requested = Signal()
    pressed = Signal()  # while nothing answers

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = EngineState()
        self._answering = False
        self._waiting = self._reading = ""
        self._dot = QLabel(self)
        self._dot.setObjectName("dot")
        self.words = CutLabel(self)
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

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Ask why nothing answers."""
        super().mousePressEvent(event)
        if not (self._state.ready or self._state.busy):
            self.pressed.emit()

    def show_engine_state(self, state: EngineState) -> None:
        """Show what the engine does; where nothing answers, it can be asked why."""
        self._state = state
        answers = state.ready or state.busy
        self.setCursor(Qt.CursorShape.ArrowCursor if answers else Qt.CursorShape.PointingHandCursor)
        self._show()

    def show_answering(self, answering: bool) -> None:
        """Show whether a question is being answered."""
        self._answering = answering
        self._show()

    def show_answer(self, answer: Message, _added: str) -> None:
        """Show whether it waits for others, or for its question; every piece of an answer comes by here."""
        waiting, reading = waiting_words(answer), reading_words(answer) if answer.reading else ""
        if (waiting, reading) != (self._waiting, self._reading):
            self._waiting, self._reading = waiting, reading
            self._show()

    def _show(self) -> None:
        state = self._state
        loading = state.phase is Phase.LOADING
        words, phase = state.words, state.phase.value
        if self._answering and state.ready:
            words = self._waiting or self._reading or tr("Answering")
            phase = "waiting" if self._waiting else "answering"
        self.words.setText(words)
        self.words.setToolTip(tip(words))
        self.progress.setVisible(loading)
        self.progress.setRange(0, state.total)  # an empty range shows that something goes on
        self.progress.setValue(state.done)
        self.cancel.setVisible(loading)
        self._dot.setProperty("phase", phase)
        self._dot.style().unpolish(self._dot)
        self._dot.style().polish(self._dot)


def _place_beside(window: QWidget) -> QPoint:
    """A little below and behind a window; at the screen's corner where hardly anything of it would be seen there."""
    place, screen = window.pos() + QPoint(_STEP, _STEP), window.screen().availableGeometry()
    return place if screen.contains(place + QPoint(_SEEN, _SEEN)) else screen.topLeft()


def _whole(window: QWidget, place: QPoint) -> QPoint:
    """The place, or the nearest at which the screen has all of a window."""
    room = window.screen().availableGeometry()
    last = room.bottomRight() - QPoint(window.width() - 1, window.height() - 1)
    return QPoint(max(room.left(), min(place.x(), last.x())), max(room.top(), min(place.y(), last.y())))


def _pack(state: QByteArray) -> str:
    return state.toBase64().toStdString()


def _unpack(stored: str) -> QByteArray:
    return QByteArray.fromBase64(stored.encode())
