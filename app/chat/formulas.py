"""The formulas that are drawn already; others are drawn beside the window's thread."""

import gc
import time
from collections.abc import Set as AbstractSet
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple, TypeAlias

from PySide6.QtCore import QObject, Qt, Signal, SignalInstance

from app.background import attempt, start
from app.chat.formula_drawing import Formula, draw
from app.throttle import Throttle

_MOST = 2_000
_LONGEST_REST = 0.02  # seconds


class Latex(NamedTuple):
    """A formula as it was written: its mark and what stands between."""

    content: str
    mark: str
    displayed: bool

    @property
    def source(self) -> str:
        """As it stood in the text."""
        return self.mark + self.content + {"\\(": "\\)", "\\[": "\\]"}.get(self.mark, self.mark)


_ANY = Latex("x", "$", displayed=False)
_Queue: TypeAlias = "SimpleQueue[Latex | None]"


class Formulas(QObject):
    """Gives pictures of formulas; `drawn` says which are there now, or cannot be had, at most once a frame."""

    drawn = Signal(object)  # a set of Latex

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pictures: dict[Latex, Formula | None] = {}
        self._awaited: set[Latex] = set()
        self._waiting: _Queue = SimpleQueue()
        self._drawer: Thread | None = None
        self._is_closed = False
        self._settled: set[Latex] = set()  # since the last time that somebody was told
        self._telling = Throttle(self._tell, parent=self)
        # queued, since a formula can be drawn before whoever asked has written down where it belongs
        self._finished.connect(self._on_finished, Qt.ConnectionType.QueuedConnection)
        self.destroyed.connect(partial(self._waiting.put, None))

    _finished = Signal(object, object)

    def picture(self, latex: Latex) -> Formula | None:
        """The picture, if it is there."""
        return self._pictures.get(latex)

    def is_known(self, latex: Latex) -> bool:
        """Whether it is settled how this formula looks; if not, it is drawn and `drawn` will tell."""
        if latex in self._pictures:
            return True
        if latex not in self._awaited and not self._is_closed:
            self._awaited.add(latex)
            self._waiting.put(latex)
            if self._drawer is None:
                work = (self._waiting, self._awaited, self._finished)
                self._drawer = start("formulas", partial(_draw_waiting, *work))
        return False

    def warm_up(self) -> None:
        """Load what draws formulas beside the window's thread, so that the first one does not have to wait for it."""
        self.is_known(_ANY)

    def give_up(self) -> None:
        """Nobody waits any more for what is not drawn yet."""
        self._awaited.clear()

    def close(self) -> None:
        """Draw nothing more, now and later; what waits to be drawn is given up."""
        self._is_closed = True
        self.give_up()
        if self._drawer is not None:
            self._waiting.put(None)
            self._drawer.join()
            self._drawer = None

    def _on_finished(self, latex: Latex, picture: Formula | None) -> None:
        self._awaited.discard(latex)
        if not self._pictures:
            gc.freeze()  # the fonts that were read stay: to search them for garbage again and again takes 0.1 s
        if len(self._pictures) >= _MOST:
            del self._pictures[next(iter(self._pictures))]
        self._pictures[latex] = picture
        self._settled.add(latex)
        self._telling.request()

    def _tell(self) -> None:
        settled, self._settled = frozenset(self._settled), set()
        self.drawn.emit(settled)


def _draw_waiting(waiting: _Queue, awaited: AbstractSet[Latex], finished: SignalInstance) -> None:
    """Draw what is still awaited, until `None` comes; what cannot be told any more is nobody's.

    After each formula it rests twice as long: two threads of Python keep each other waiting, and one is the window's.
    (No pool of threads: each of its tasks is a dozen objects, and thousands of formulas would be searched for garbage.)
    """
    while (latex := waiting.get()) is not None:
        if latex in awaited:
            begin = time.perf_counter()
            picture = attempt(partial(draw, latex.content, latex.displayed), lambda _error: None)  # shown as its source
            try:
                finished.emit(latex, picture)
            except RuntimeError:
                return
            time.sleep(min(2 * (time.perf_counter() - begin), _LONGEST_REST))
