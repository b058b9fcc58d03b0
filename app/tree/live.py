"""What is seen of a round before it is over: its tree as it grows, and the target's layers as they pass by."""

from collections.abc import Set

from PySide6.QtCore import QObject, QTimer, Signal

from app.tree.layer_strip import LayerStrip
from app.tree.picture.growth import Growth
from app.tree.picture.palette import Palette
from app.tree.rounds.snapshot import MalformedTreeError, Snapshot, unverified
from engine.protocol.messages import Event, Failed, Finished, Loaded, Round
from engine.protocol.watching import Drafted, Passing

SLOW_SECONDS = 0.3  # a pass that took less cannot be followed layer by layer
_LOOK = 0.35  # such a part of the time of a round its outcome stays before the next tree is seen growing
_LONGEST_LOOK_MS = 700


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

    def set_palette(self, palette: Palette) -> None:
        """Change the colours."""
        self._strip.set_palette(palette)

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
        self._look.start(min(_LONGEST_LOOK_MS, round(verified.seconds.decode * _LOOK * 1000)))
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
