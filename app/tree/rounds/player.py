"""Which round is looked at: the newest, one that was chosen or is pointed at, or one after the other."""

import math
from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from app.tree.rounds.history import History, Key
from engine.protocol.messages import Round

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0)
_LEAST_MS, _MOST_MS = 40, 3000  # between two rounds that are played
_BACK, _AHEAD = 8, 24  # rounds around the one that is looked at, which are brought together with it


class Player(QObject):
    """Live it follows the newest round; paused it stays where it is, whatever comes.

    A recording takes the place of the conversation's rounds until it is closed; those are kept on meanwhile.
    """

    moved = Signal()
    """Another round is looked at, or there are more of them."""

    wanted = Signal(list)
    """Keys of rounds that are kept elsewhere: they are to be brought."""

    recording_closed = Signal()
    """The rounds of the recording are about to be forgotten."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.conversation = History()
        self.place = -1  # of the round that is looked at; -1: there is none
        self.is_live = True
        self.speed = 1.0
        self.is_awaiting = False  # an answer is written, and gives more rounds
        self._recording: History | None = None
        self._before = (-1, True)  # place and whether it was live, before the recording
        self._glanced: int | None = None
        self._asked: set[Key] = set()  # for what is on its way
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._on_timeout)

    @property
    def history(self) -> History:
        """The rounds that can be looked at: the recording's, or the conversation's."""
        return self.conversation if self._recording is None else self._recording

    @property
    def is_recording(self) -> bool:
        """Whether a recording is looked at."""
        return self._recording is not None

    @property
    def shown_place(self) -> int:
        """Of the round to show: one that is only pointed at comes before the one that is looked at."""
        return self.place if self._glanced is None else self._glanced

    @property
    def follows_newest(self) -> bool:
        """Whether the newest round is to be shown, as it comes."""
        return self.is_live and self._glanced is None

    @property
    def current(self) -> Round | None:
        """The round to show; None where there is none, where it is on its way, or where it is lost."""
        place = self.shown_place
        if place < 0:
            return None
        found = self.history.round(place)
        if found is None or self.is_playing:
            self.want(place)
        return found

    @property
    def is_on_its_way(self) -> bool:
        """Whether the round to show was asked for, and is not there yet."""
        return bool(self.shown_place >= 0 and self.history.missing(self.shown_place, self.shown_place + 1))

    @property
    def is_playing(self) -> bool:
        """Whether it moves on by itself through what was kept."""
        return self._timer.isActive()

    @property
    def is_moving(self) -> bool:
        """Whether another round will be shown by itself."""
        return self.is_playing or (self.follows_newest and self.is_awaiting)

    @property
    def pause_ms(self) -> float:
        """Until the next round that is played; no end in sight where none is, 0 for one that is only pointed at."""
        if self._glanced is not None:
            return 0.0
        return float(self._timer.interval()) if self.is_playing else math.inf

    # ---- rounds that come --------------------------------------------------------------------------------------------

    def add(self, newest: Round) -> None:
        """A round of the conversation has come."""
        self.conversation.append(newest)
        if self._recording is None:
            if self.is_live:
                self.place = len(self.conversation) - 1
            self.moved.emit()

    def put_before(self, keys: Sequence[Key]) -> None:
        """The conversation has older rounds, which are kept elsewhere."""
        count = self.conversation.put_before(keys)
        if self._recording is None:
            self._glanced = None if self._glanced is None else self._glanced + count
            self.place = len(self.conversation) - 1 if self.is_live else self.place + count
            self.moved.emit()
        elif self._before[0] >= 0:
            self._before = (self._before[0] + count, self._before[1])

    def bring(self, brought: Sequence[tuple[Key, bytes | None]]) -> None:
        """Rounds of the conversation that were wanted; None for those that are lost."""
        for key, packed in brought:
            self._asked.discard(key)
            self.conversation.bring(key, packed)
        self.moved.emit()

    def want(self, place: int) -> None:
        """Have a round brought, and those around it, if it or what follows soon is not there."""
        history = self.history
        if any(each not in self._asked for each in history.missing(place, place + _AHEAD // 2)):
            missing = [each for each in history.missing(place - _BACK, place + _AHEAD) if each not in self._asked]
            self._asked.update(missing)
            self.wanted.emit(missing)

    def clear(self) -> None:
        """Forget all rounds, and be live."""
        self._timer.stop()
        self._forget_recording()
        self._glanced = None
        self._asked.clear()
        self.conversation.clear()
        self.place, self.is_live = -1, True
        self.moved.emit()

    # ---- recordings --------------------------------------------------------------------------------------------------

    def open_recording(self, recording: History) -> None:
        """Look at these rounds, from the first; more may be added to them."""
        self._timer.stop()
        if self._recording is None:
            self._before = (self.place, self.is_live)
        self._forget_recording()
        self._recording, self._glanced = recording, None
        self.place, self.is_live = 0, False
        self.moved.emit()

    def close_recording(self) -> None:
        """Look at the conversation's rounds again, where it was left."""
        if self._recording is not None:
            self._timer.stop()
            self._forget_recording()
            self.place, self.is_live = self._before
            if self.is_live:
                self.place = len(self.conversation) - 1
            self.moved.emit()

    # ---- what a person does ------------------------------------------------------------------------------------------

    def glance(self, place: int | None) -> None:
        """Show a round while it is pointed at; None: no longer."""
        if place != self._glanced:
            self._glanced = place
            self.moved.emit()

    def seek(self, place: int) -> None:
        """Look at this round from now on; generation goes on meanwhile."""
        self._timer.stop()
        if len(self.history):
            self._move(place)

    def step(self, rounds: int) -> None:
        """Look at one so many rounds later or, below 0, earlier."""
        self.seek(self.shown_place + rounds)

    def pause(self) -> None:
        """Stay at the round that is looked at."""
        self.seek(self.shown_place)

    def play(self) -> None:
        """Go on through the rounds at `speed`; from the first, if the last one is looked at."""
        if not len(self.history):
            return
        self._play_on(0 if self.place >= len(self.history) - 1 else self.place)

    def toggle(self) -> None:
        """Pause what moves, play what stands."""
        if self.is_moving and len(self.history):
            self.pause()
        else:
            self.play()

    def go_live(self) -> None:
        """Follow the newest round of the conversation again."""
        self._timer.stop()
        self.close_recording()
        self._glanced = None
        self.is_live = True
        self.place = len(self.history) - 1
        self.moved.emit()

    def find(self, request: int, index: int) -> int | None:
        """Where the round of a request of the conversation is."""
        return self.conversation.find((request, index)) if self._recording is None else None

    def _forget_recording(self) -> None:
        """Whoever has opened it keeps the history still; its rounds take memory and disk."""
        if self._recording is not None:
            self.recording_closed.emit()
            self._recording.clear()
            self._recording = None

    def _move(self, place: int) -> None:
        self.is_live, self._glanced = False, None
        self.place = min(max(0, place), len(self.history) - 1)
        self.moved.emit()

    def _play_on(self, place: int) -> None:
        """Start the timer before the move is told: its listeners find the player playing."""
        self.is_live, self._glanced = False, None
        self.place = place
        self._schedule()
        self.moved.emit()

    def _schedule(self) -> None:
        current = self.current
        seconds = current.seconds.decode if current else 0.0
        self._timer.start(round(min(max(seconds * 1000 / self.speed, _LEAST_MS), _MOST_MS)))

    def _on_timeout(self) -> None:
        if self.place < len(self.history) - 1:
            self._play_on(self.place + 1)
        else:
            self.moved.emit()
