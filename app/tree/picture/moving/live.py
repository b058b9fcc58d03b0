"""What is seen of a round before it is over: its tree as it grows, and the target's layers as they are computed."""

from collections.abc import Set

from PySide6.QtCore import QObject, QTimer, Signal

from app.tree.picture.moving.growth import Growth
from app.tree.picture.moving.layer_strip import LayerStrip
from app.tree.rounds.snapshot import MalformedTreeError, Snapshot, unverified
from app.ui.colors import TreeColors
from engine.protocol.messages import Event, Failed, Finished, Loaded, Round
from engine.protocol.watching import Drafted, Passing

SLOW_SECONDS = 0.3  # a pass that took less cannot be followed layer by layer
_LOOK = 0.35  # such a part of the time of a round its outcome stays before the next tree is seen growing
_LONGEST_LOOK_MS = 700


def look_ms(round_seconds: float) -> int:
    """How long the outcome of a round is to be seen before the next tree grows."""
    return min(_LONGEST_LOOK_MS, round(round_seconds * _LOOK * 1000))


class Live(QObject):
    """Follows what the engine tells of the requests that belong to the conversation."""

    grown = Signal(Snapshot)
    """The tree of the newest round as it is by now, not verified yet."""

    def __init__(self, strip: LayerStrip, requests: Set[int], parent: QObject) -> None:
        """`requests` may change: those that belong to the conversation."""
        super().__init__(parent)
        self._strip = strip
        self._requests = requests
        self._growth = Growth(self)
        self._growth.grown.connect(self.grown)
        self._newest: Drafted | None = None
        self._look = QTimer(self, singleShot=True)
        self._look.timeout.connect(self._on_looked)

    def take(self, event: Event, is_seen: bool) -> None:
        """Anything that the engine tells; `is_seen`: whether trees that grow are to be shown."""
        match event:
            case Loaded():
                self._strip.set_layers(event)
            case Drafted() if is_seen and event.id in self._requests:
                self._newest = event
                if not self._look.isActive():
                    self._on_looked()
            case Passing() if event.id in self._requests:
                self._strip.follow(event)
            case Round() if event.id in self._requests:
                self._end_round(event)
            case Finished() | Failed() if event.id in self._requests:
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
