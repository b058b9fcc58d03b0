"""What is seen of a round before it is over: its tree as it grows, and the target's layers as they are computed."""

from collections.abc import Callable, Set

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine.listener import EventListener, takes
from app.tree.picture.moving.growth import Growth
from app.tree.picture.moving.layer_strip import LayerStrip
from app.tree.rounds.snapshot import MalformedTreeError, Snapshot, unverified
from app.ui.colors import TreeColors
from engine.protocol.messages import Event, Failed, Finished, Loaded, Ready, Round
from engine.protocol.watching import Drafted, Passing

SLOW_SECONDS = 0.3  # a pass that took less cannot be followed layer by layer
_LOOK = 0.35  # such a part of the time of a round its outcome stays before the next tree is seen growing
_LONGEST_LOOK_MS = 700


def look_ms(round_seconds: float) -> int:
    """How long the outcome of a round is to be seen before the next tree grows."""
    return min(_LONGEST_LOOK_MS, round(round_seconds * _LOOK * 1000))


class Live(QObject, EventListener):
    """Follows what the engine tells of the requests that belong to the conversation."""

    grown = Signal(Snapshot)
    """The tree of the newest round as it is by now, not verified yet."""

    def __init__(
        self, strip: LayerStrip, requests: Set[int], parent: QObject, is_seen: Callable[[], bool] = lambda: True
    ) -> None:
        """`requests` may change: those that belong to the conversation. `is_seen`: whether to show trees that grow."""
        super().__init__(parent)
        self._strip = strip
        self._is_seen = is_seen
        self._requests = requests
        self._growth = Growth(self)
        self._growth.grown.connect(self.grown)
        self._newest: Drafted | None = None
        self._look = QTimer(self, singleShot=True)
        self._look.timeout.connect(self._on_looked)

    def concerns(self, event: Event) -> bool:
        """What is loaded does, and what comes of the conversation's requests."""
        return isinstance(event, Loaded) or (not isinstance(event, Ready) and event.id in self._requests)

    @takes(Loaded)
    def _on_loaded(self, event: Loaded) -> None:
        self._strip.set_layers(event)

    @takes(Drafted)
    def _on_drafted(self, event: Drafted) -> None:
        if self._is_seen():
            self._newest = event
            if not self._look.isActive():
                self._on_looked()

    @takes(Passing)
    def _on_passing(self, event: Passing) -> None:
        self._strip.follow(event)

    @takes(Finished, Failed)
    def _on_ended(self, _event: Finished | Failed) -> None:
        self.end()

    def set_colors(self, colors: TreeColors) -> None:
        """Change the colours."""
        self._strip.set_colors(colors)

    def set_stepwise(self, stepwise: bool) -> None:
        """Whether a tree is seen growing step by step."""
        self._growth.is_stepwise = stepwise

    def end_growth(self) -> None:
        """Show no more of the tree that grows."""
        self._look.stop()
        self._newest = None
        self._growth.end()

    def end(self) -> None:
        """Nothing is under way."""
        self.end_growth()
        self._strip.rest()

    @takes(Round)
    def _end_round(self, verified: Round) -> None:
        """Its outcome is to be seen, however soon the next tree begins to grow."""
        self.end_growth()
        self._look.start(look_ms(verified.seconds.decode))
        if verified.seconds.target < SLOW_SECONDS:
            self._strip.rest()

    def _on_looked(self) -> None:
        drafted, self._newest = self._newest, None
        if drafted is None:
            return
        try:
            self._growth.begin(unverified(drafted))
        except MalformedTreeError:
            self._growth.end()  # the round itself will say so
