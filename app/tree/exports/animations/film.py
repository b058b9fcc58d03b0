"""Makes an animation: paints its frames step by step between the turns of the event loop; a process encodes them."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from PySide6.QtCore import QObject, QSize, QTimer, Signal
from PySide6.QtGui import QFont, QImage

from app.i18n.number_text import Number, size_text
from app.i18n.sentences import error_text
from app.i18n.translation import tr
from app.tree.exports.animations.encoding import Encoding, Painted
from app.tree.exports.animations.formats import AnimationFormat
from app.tree.exports.animations.scene import Scene
from app.tree.exports.animations.story import END_MS, Frame, added, frames_of, milliseconds, stride_of, waves_of
from app.tree.exports.choices import SIZES, AnimationChoice
from app.tree.rounds.player import Player
from app.tree.rounds.snapshot import MalformedTreeError
from app.ui.colors import TreeColors
from app.ui.jobs import Job, Jobs
from engine.errors import CoppiceError
from engine.protocol.messages import Round

_log = logging.getLogger(__name__)

_MOST_WAITING = 4  # frames that are painted and not yet encoded: of 8 MB each, where they are largest
_PATIENCE_SECONDS = 3.0  # with an encoder that is to stop: a frame takes half a second at most
_AGAIN_MS = 15  # until a round that is on its way is looked for again


@dataclass(frozen=True, slots=True)
class Progress:
    """`rounds` of `all_rounds` are painted; `frames` of them are encoded, into so many bytes."""

    rounds: int
    all_rounds: int
    frames: int
    bytes: int

    def bytes_estimated(self, forecast: float) -> float:
        """Of the whole file, for which so many were foretold: of what is to come that is the best guess."""
        return self.bytes + forecast * (1 - self.rounds / max(1, self.all_rounds))


class Film(QObject):
    """One animation. It ends in `done` or `failed`, both in words, or, after `cancel`, in neither.

    Nothing is left of what does not end in `done`; a file that was there stays until then.
    """

    progressed = Signal(object)
    done = Signal(str)
    failed = Signal(str)

    def __init__(self, player: Player, rounds: range, parent: QObject) -> None:
        """`rounds`: their places in the history that the player shows now."""
        super().__init__(parent)
        self._player, self._history = player, player.history
        self._rounds = rounds
        self._stride = stride_of(len(rounds))
        self._next = rounds.start
        self._told = ""  # of the answer, by the rounds before the next one
        self._owed_ms = 0  # the time of rounds that are not shown
        self._total_ms = 0
        self._waiting: list[Frame] = []  # of the round before the next one, to be painted
        self._painting: Iterator[QImage | None] = iter(())  # of the first that waits
        self._frames: SimpleQueue[Painted | None] = SimpleQueue()
        self._scene: Scene | None = None
        self._jobs: Jobs | None = None
        self._job: Job | None = None
        self._choice = AnimationChoice()
        self._path = Path()
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._paint_on)

    @property
    def is_running(self) -> bool:
        """Whether it was begun and has not ended."""
        return self._job is not None

    def begin(
        self, path: Path, form: AnimationFormat, choice: AnimationChoice, colors: TreeColors, font: QFont
    ) -> None:
        """Make it, and write it there."""
        assert self._jobs is None, "a film is made once"
        self._path, self._choice = path, choice
        size = SIZES[choice.size]
        self._scene = Scene(QSize(*size), choice.way, colors, font)
        self._jobs = Jobs(1, "animation", self)
        self._job = self._jobs.start(Encoding(self._frames, path, form, size, colors, choice.repeats).run)
        self._job.stepped.connect(self._on_stepped)
        self._job.done.connect(self._on_done)
        self._job.failed.connect(self._on_failed)  # it begins to paint as soon as the encoder is loaded

    def cancel(self) -> None:
        """Let nothing more be heard of it; what is written goes."""
        if self._job:
            self._job.cancel()
        self._end()

    def leave(self) -> None:
        """The same, and what is written is gone on return: with the program the thread would end before that."""
        self.cancel()
        if self._jobs and not self._jobs.wait(_PATIENCE_SECONDS):
            _log.warning("%s is still being written while the program ends", self._path.name)

    # ---- in the window's thread --------------------------------------------------------------------------------------

    def _paint_on(self) -> None:
        """One step of a frame; then the window has its turn."""
        if self._frames.qsize() >= _MOST_WAITING:
            return  # goes on once one of them is encoded
        if not self._waiting and not self._take_round():
            return
        if image := next(self._painting, None):
            lasting = self._waiting.pop(0).milliseconds
            self._total_ms += lasting
            self._frames.put((image, lasting))
            self._begin_frame()
        self._timer.start(0)

    def _begin_frame(self) -> None:
        """The next that waits, if there is one."""
        assert self._scene, "there is one as long as frames are painted"
        self._painting = self._scene.steps(self._waiting[0]) if self._waiting else iter(())

    def _take_round(self) -> bool:
        """Make frames of the next round; whether to go on at once."""
        if self._next >= min(self._rounds.stop, len(self._history)):
            self._frames.put(None)
            return False
        if self._history.missing(self._next, self._next + 1) and self._player.history is self._history:
            self._player.want(self._next)
            self._timer.start(_AGAIN_MS)
            return False
        kept = self._history.round(self._next)
        if kept is not None:
            self._show(kept)
        self._next += 1
        return True

    def _show(self, of: Round) -> None:
        is_last = self._next == self._rounds.stop - 1
        lasting = milliseconds(of, self._choice) + self._owed_ms
        if (self._next - self._rounds.start) % self._stride and not is_last:
            self._owed_ms = lasting
        else:
            self._owed_ms = 0
            try:
                self._waiting = frames_of(of, self._told, lasting, waves_of(len(self._rounds), self._choice))
            except MalformedTreeError as error:
                _log.warning("Round %d is left out: %s", of.index, error)
            if is_last and self._waiting:
                self._waiting.append(self._held(self._waiting.pop()))
            self._begin_frame()
        self._told += "".join(added(of))

    def _held(self, last: Frame) -> Frame:
        return Frame(last.tree, last.told, last.milliseconds + END_MS, last.accepted, last.bonus)

    def _on_stepped(self, step: tuple[int, int]) -> None:
        if not self.is_running:
            return
        self.progressed.emit(Progress(self._next - self._rounds.start, len(self._rounds), *step))
        if not self._timer.isActive():
            self._paint_on()

    def _on_done(self, step: tuple[int, int]) -> None:
        self._end()
        if not step[0]:
            self.failed.emit(tr("None of these rounds is kept any more."))
            return
        words = tr("The animation is in {name}: {seconds} s, {size}.")
        seconds = f"{Number(self._total_ms / 1000):,.0f}"
        self.done.emit(words.format(name=self._path.name, seconds=seconds, size=size_text(step[1])))

    def _on_failed(self, error: CoppiceError) -> None:
        self._end()
        self.failed.emit(error_text(error))

    def _end(self) -> None:
        self._timer.stop()
        self._waiting.clear()
        self._painting = iter(())
        with suppress(Empty):  # frames are large, and nobody takes these any more
            while True:
                self._frames.get_nowait()
        self._frames.put(None)  # whoever waits for one is to look whether to stop
        self._job = None
        if self._scene:
            self._scene.close()
            self._scene = None
        if self._jobs:
            self._jobs.close()
