"""The dock of the speculation tree; the panel in it is made when it is first asked for."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QDockWidget, QMainWindow

from app.engine.listener import EventListener, takes
from app.i18n.translation import tr
from app.tree.widgets import EMPTY, message_label
from app.ui.colors import Colors
from engine.protocol.messages import Loaded

if TYPE_CHECKING:
    from app.tree.panel import TreePanel


class TreeDock(QObject, EventListener):
    """Numpy and pyqtgraph come with the panel: until then a sentence stands in its place."""

    def __init__(self, window: QMainWindow) -> None:
        """`window`: of which `dock` is to be a part."""
        super().__init__(window)
        self._window = window
        self._panel: TreePanel | None = None
        self._connect: Callable[[TreePanel], None] = lambda _panel: None
        self._loaded: list[Loaded] = []  # the pair, for a panel that is made after it was loaded
        self._colors: Colors | None = None
        self.dock = QDockWidget(tr("Speculation tree"), window)
        self.dock.setObjectName("tree")
        self.dock.setWidget(message_label(tr(EMPTY)))

    @property
    def panel(self) -> "TreePanel":
        """The panel, connected, in the place of the sentence."""
        if self._panel is None:
            from app.tree.panel import TreePanel  # noqa: PLC0415

            self._panel = TreePanel(self._window, self._colors)
            self._connect(self._panel)
            self._panel.on_events(self._loaded)
            words = self.dock.widget()
            self.dock.setWidget(self._panel)
            words.deleteLater()
        return self._panel

    @property
    def is_made(self) -> bool:
        """Whether there is a panel by now."""
        return self._panel is not None

    def make_panel(self) -> None:
        """Make the panel, if it was not asked for yet."""
        _ = self.panel

    def when_made(self, connect: "Callable[[TreePanel], None]") -> None:
        """Connect the panel by this as soon as there is one."""
        self._connect = connect

    def leave(self) -> None:
        """The window goes: nothing half written stays."""
        if self._panel is not None:
            self._panel.exports.leave()

    @takes(Loaded)
    def _on_loaded(self, event: Loaded) -> None:
        """Remember the pair, as long as there is no panel that is told itself."""
        if self._panel is None:
            self._loaded = [event]

    def on_asked(self, request: int) -> None:
        """The conversation has asked the engine something."""
        self.panel.follow(request)

    def on_listed(self, rounds: list[tuple[int, int]]) -> None:
        """The conversation that is shown has these rounds of before."""
        self.panel.player.put_before(rounds)
        self.panel.filling.set_wanted(self.panel.isVisible())

    def glance_at(self, request: int, index: int) -> None:
        """Show the round that is pointed at in the answer."""
        self.panel.glance_at(request, index)

    def show_round_of(self, request: int, index: int) -> None:
        """Look at the round of a request."""
        self.panel.show_round_of(request, index)

    def set_motion(self, wanted: bool) -> None:
        """Whether trees move."""
        if self._panel is not None:
            self._panel.set_motion(wanted)

    def set_theme(self, colors: Colors) -> None:
        """Change the colours."""
        self._colors = colors
        if self._panel is not None:
            self._panel.set_theme(colors)
