"""A round in one motion: the tree grows, the check sweeps along the accepted path, and what was rejected pales.

The picture is laid out and could be seen at once; a veil above it shows its parts, each painted a single time. A frame
costs a few copies of these, whatever the number of nodes.
"""

import math
import time
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, Qt, QTimer

from app.tree.picture.canvas import TreeCanvas
from app.tree.picture.moving.veil import Moment, Veil, place_of
from app.tree.picture.picture import Picture
from app.tree.rounds.snapshot import Snapshot

GROW_MS, CHECK_MS, CUT_MS = 90, 90, 70
LONGEST_MS = GROW_MS + CHECK_MS + CUT_MS
SHORTEST_MS = 120
"""In less time a motion cannot be followed: then there is none."""

FRAME_MS = 16
_ENDING = {
    QEvent.Type.KeyPress,
    QEvent.Type.ShortcutOverride,  # keys that are shortcuts
    QEvent.Type.MouseButtonPress,
    QEvent.Type.Wheel,
    QEvent.Type.Resize,
    QEvent.Type.Hide,
}


@dataclass
class Cost:
    """How long it takes here to paint a part of a tree: too large ones do not move."""

    seconds_per_node: float = 2e-5  # about what a core of 2.5 GHz takes
    _LEAST = 32  # nodes: of smaller trees most of the time is something else

    def allows(self, nodes: int) -> bool:
        """Whether a part with so many nodes is painted within a frame; from time to time it is tried again."""
        if nodes * self.seconds_per_node <= FRAME_MS / 1000:
            return True
        self.seconds_per_node *= 0.95
        return False

    def learn(self, nodes: int, seconds: float) -> None:
        """It was painted in so much time."""
        if nodes >= self._LEAST:
            self.seconds_per_node = (self.seconds_per_node + seconds / nodes) / 2


def moment(elapsed_ms: float, length_ms: float, *, has_grown: bool) -> Moment | None:
    """Where a motion is that takes so long altogether; None once it is over."""
    if elapsed_ms >= length_ms:
        return None
    stages = (0 if has_grown else GROW_MS, CHECK_MS, CUT_MS)
    left = elapsed_ms * sum(stages) / length_ms
    shares = []
    for stage in stages:
        shares.append(min(1.0, left / stage) if stage else 1.0)
        left = max(0.0, left - stage)
    return Moment(*shares)


class Motion(QObject):
    """Moves what a canvas has just been told to show. Any key or click in it, and whatever else it shows, ends that."""

    def __init__(self, canvas: TreeCanvas) -> None:
        super().__init__(canvas)
        self.is_wanted = True
        self.cost = Cost()
        self._canvas = canvas
        self._clock = time.perf_counter
        self._veil = Veil(canvas)
        self._tree: Snapshot | None = None
        self._begun = self._asked = -math.inf
        self._length_ms = 0.0
        self._has_grown = False
        self._timer = QTimer(self, interval=FRAME_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.frame)
        canvas.composed.connect(self._on_composed)
        for watched in (canvas, canvas.viewport()):
            watched.installEventFilter(self)

    @property
    def is_running(self) -> bool:
        """Whether something moves."""
        return self._tree is not None

    def begin(self, before: Snapshot | None, room_ms: float) -> None:
        """Move what is shown now, in place of `before`; it will be seen for so long at least."""
        self.end()
        since_ms, self._asked = (self._clock() - self._asked) * 1000, self._clock()
        picture = self._canvas.picture
        if picture is None or not self._is_worth(picture, before) or min(room_ms, since_ms) < SHORTEST_MS:
            return
        self._tree = picture.tree
        self._has_grown = before is not None and before.number == picture.tree.number
        whole = LONGEST_MS - GROW_MS if self._has_grown else LONGEST_MS
        self._length_ms = min(whole, room_ms)
        self._begun = self._clock()
        self._veil.begin(picture)
        self.frame()
        self._timer.start()

    def frame(self) -> None:
        """Show the moment that it is now."""
        now = moment((self._clock() - self._begun) * 1000, self._length_ms, has_grown=self._has_grown)
        if now is None or not self._canvas.isVisible():
            self.end()
        else:
            self._veil.show_moment(now)

    def end(self) -> None:
        """Show all of it at once."""
        if self._tree is not None:
            self._timer.stop()
            self._tree = None
            self.cost.learn(*self._veil.spent)
            self._veil.end()

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Who does something in the tree wants to see it."""
        if self._tree is not None and event.type() in _ENDING:
            self.end()
        return False

    def _is_worth(self, picture: Picture, before: Snapshot | None) -> bool:
        """Verified trees with guesses, if they were not seen verified just before."""
        tree = picture.tree
        is_new = before is None or before.number != tree.number or not before.is_verified
        is_whole = bool(tree.is_verified and tree.drafted)
        return self.is_wanted and is_new and is_whole and self._canvas.isVisible() and self.cost.allows(picture.shown)

    def _on_composed(self) -> None:
        """The same round again, laid out as it was, goes on moving."""
        picture = self._canvas.picture
        if picture is None or picture.tree is not self._tree or place_of(picture) != self._veil.place:
            self.end()
