"""The tree as the window knows it: its dock, and its ways to the engine, the chat, the settings and kept rounds."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QDockWidget, QMainWindow

from app.chat.generation.controller import ChatController
from app.chat.reading import Reading
from app.chat.round_keeper import RoundKeeper
from app.chat.view.conversation_view import ConversationView
from app.engine.link import EngineLink
from app.i18n.translation import tr
from app.settings.store import SettingsFile
from app.telemetry.dock import TelemetryDock
from app.tree.widgets import EMPTY, message_label
from app.ui.colors import Colors
from engine.protocol.messages import Event, Loaded

if TYPE_CHECKING:
    from app.tree.panel import TreePanel

TREE_MODULE = "app.tree.panel"


class TreeRoom(QObject):
    """Holds the dock. The panel in it is made when it is first asked for: numpy and pyqtgraph come with it."""

    def __init__(self, window: QMainWindow) -> None:
        """`window`: of which `dock` is to be a part."""
        super().__init__(window)
        self._window = window
        self._panel: TreePanel | None = None
        self._connect: Callable[[TreePanel], None] = lambda _panel: None
        self._loaded: list[Event] = []  # the pair, for a panel that is made after it was loaded
        self._colors: Colors | None = None
        self.dock = QDockWidget(tr("Speculation tree"), window)
        self.dock.setObjectName("tree")
        self.dock.setWidget(message_label(tr(EMPTY)))

    @property
    def panel(self) -> "TreePanel":
        """The panel, connected, in the place of the words that stood for it."""
        if self._panel is None:
            from app.tree.panel import TreePanel  # noqa: PLC0415

            self._panel = TreePanel(self._window, self._colors)
            self._connect(self._panel)
            self._panel.on_events(self._loaded)
            words = self.dock.widget()
            self.dock.setWidget(self._panel)
            words.deleteLater()
        return self._panel

    def furnish(self) -> None:
        """Make the panel, if nobody has asked for it."""
        _ = self.panel

    def follow(
        self,
        link: EngineLink,
        chat: ChatController,
        settings: SettingsFile,
        rounds: RoundKeeper,
        view: ConversationView,
        reading: Reading,
    ) -> None:
        """Connect the panel with all these: now what makes one necessary, the rest as soon as there is one."""

        def connect(panel: "TreePanel") -> None:
            connect_tree(panel, link, chat, settings)
            connect_rounds(panel, rounds, chat, view)

        self._connect = connect
        link.events_arrived.connect(self._on_events)
        chat.asked.connect(self._on_asked)
        rounds.listed.connect(self._on_listed)
        rounds.origins_found.connect(view.restore_origins)
        reading.token_hovered.connect(self.glance_at)
        reading.token_chosen.connect(self.show_round_of)

    def _on_events(self, events: list[Event]) -> None:
        if self._panel is None:
            self._loaded = [each for each in events if isinstance(each, Loaded)] or self._loaded

    def _on_asked(self, request: int) -> None:
        self.panel.follow(request)

    def _on_listed(self, rounds: list[tuple[int, int]]) -> None:
        self.panel.player.put_before(rounds)

    def glance_at(self, request: int, index: int) -> None:
        """Show the round that somebody points at in the answer."""
        self.panel.glance_at(request, index)

    def show_round_of(self, request: int, index: int) -> None:
        """Look at the round of a request."""
        self.panel.show_round_of(request, index)

    def set_theme(self, colors: Colors) -> None:
        """Change the colours."""
        self._colors = colors
        if self._panel is not None:
            self._panel.set_theme(colors)


def connect_tree(panel: "TreePanel", link: EngineLink, chat: ChatController, settings: SettingsFile) -> None:
    """Let the panel see what the engine does, and the chat get what is wished for in the panel."""

    def change_budget(budget: int) -> None:
        chat.change_settings(replace(chat.generation, budget=budget))

    panel.set_way(settings.current.tree_way)
    panel.set_budget(chat.generation.budget)
    panel.set_answering(chat.is_answering)
    link.events_arrived.connect(panel.on_events)
    chat.answering_changed.connect(panel.set_answering)
    chat.conversation_replaced.connect(panel.clear)
    chat.settings_changed.connect(lambda generation: panel.set_budget(generation.budget))
    panel.command_wanted.connect(link.look)
    panel.way_chosen.connect(lambda way: settings.change(tree_way=way))
    panel.budget_wanted.connect(change_budget)


def connect_rounds(panel: "TreePanel", rounds: RoundKeeper, chat: ChatController, view: ConversationView) -> None:
    """Bring the rounds of a stored conversation into the panel, and lead from a round to its text and back.

    A rejected guess of a round can become another version of the answer.
    """

    other = tr("This round wrote another version of the answer.")

    def show_round(request: int, index: int) -> None:
        if not view.show_round(request, index):
            panel.tell(other)

    def branch(request: int, index: int, text: str) -> None:
        found = view.beginning_of(request, index)
        if found is None:
            panel.tell(other)
        else:
            panel.player.go_live()
            chat.branch(found[0], found[1] + text)

    rounds.brought.connect(panel.player.bring)
    panel.player.wanted.connect(rounds.bring)
    panel.round_shown.connect(view.mark_round)
    panel.answer_wanted.connect(show_round)
    panel.branch_wanted.connect(branch)


def connect_figures(telemetry: TelemetryDock, rounds: RoundKeeper) -> None:
    """Draw the figures of a stored conversation's rounds."""
    rounds.listed.connect(telemetry.on_listed)
    rounds.figures_brought.connect(telemetry.on_brought)
    telemetry.figures_wanted.connect(rounds.bring_figures)
