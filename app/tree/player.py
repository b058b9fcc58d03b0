"""Which round of the history is looked at: the newest, one that was chosen, or one after the other."""

from PySide6.QtCore import QObject, QTimer, Signal

from app.tree.history import History
from engine.messages import Round

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0)
_LEAST_MS, _MOST_MS = 40, 3000  # between two rounds that are played


class Player(QObject):
    """Live it follows the newest round; paused it stays where it is, whatever comes."""

    moved = Signal()
    """Another round is looked at, or there are more of them."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.history = History()
        self.place = -1  # of the round that is looked at; -1: there is none
        self.is_live = True
        self.speed = 1.0
        self._places: dict[tuple[int, int], int] = {}  # request and index -> number in the history
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._on_timeout)

    @property
    def current(self) -> Round | None:
        """The round that is looked at; None where there is none, or where it could not be kept."""
        return self.history.round(self.place) if self.place >= 0 else None

    @property
    def is_playing(self) -> bool:
        """Whether it moves on by itself through what was kept."""
        return self._timer.isActive()

    def add(self, newest: Round) -> None:
        """A round has come."""
        self._places[newest.id, newest.index] = len(self.history)
        self.history.append(newest)
        if self.is_live:
            self.place = len(self.history) - 1
        self.moved.emit()

    def clear(self) -> None:
        """Forget all rounds, and be live."""
        self._timer.stop()
        self.history.clear()
        self._places.clear()
        self.place, self.is_live = -1, True
        self.moved.emit()

    def seek(self, place: int) -> None:
        """Look at this round from now on; generation goes on meanwhile."""
        self._timer.stop()
        if len(self.history):
            self._move(place)

    def step(self, rounds: int) -> None:
        """Look at one so many rounds later or, below 0, earlier."""
        self.seek(self.place + rounds)

    def pause(self) -> None:
        """Stay at the round that is looked at."""
        self.seek(self.place)

    def play(self) -> None:
        """Go on through the rounds at `speed`; from the first, if the last one is looked at."""
        if not len(self.history):
            return
        self._move(0 if self.place >= len(self.history) - 1 else self.place)
        self._schedule()

    def toggle(self) -> None:
        """Pause what moves, play what stands."""
        if self.is_playing or (self.is_live and len(self.history)):
            self.pause()
        else:
            self.play()

    def go_live(self) -> None:
        """Follow the newest round again."""
        self._timer.stop()
        self.is_live = True
        self.place = len(self.history) - 1
        self.moved.emit()

    def find(self, request: int, index: int) -> int | None:
        """Where the round of a request is."""
        return self._places.get((request, index))

    def _move(self, place: int) -> None:
        self.is_live = False
        self.place = min(max(0, place), len(self.history) - 1)
        self.moved.emit()

    def _schedule(self) -> None:
        current = self.current
        seconds = current.seconds.decode if current else 0.0
        self._timer.start(round(min(max(seconds * 1000 / self.speed, _LEAST_MS), _MOST_MS)))

    def _on_timeout(self) -> None:
        if self.place < len(self.history) - 1:
            self._move(self.place + 1)
            self._schedule()
        else:
            self.moved.emit()
