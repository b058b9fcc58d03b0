"""The formulas that are drawn already; others are drawn beside the window's thread."""

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from PySide6.QtCore import QObject, Qt, Signal

from app.chat.formula_drawing import Formula, draw

_log = logging.getLogger("coppice.formulas")
_MOST = 2_000


class Latex(NamedTuple):
    """A formula as it was written: its mark and what stands between."""

    content: str
    mark: str
    displayed: bool

    @property
    def source(self) -> str:
        """As it stood in the text."""
        return self.mark + self.content + {"\\(": "\\)", "\\[": "\\]"}.get(self.mark, self.mark)


class Formulas(QObject):
    """Gives pictures of formulas; `drawn` says that one more is there, or cannot be had."""

    drawn = Signal(object)  # Latex

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pictures: dict[Latex, Formula | None] = {}
        self._awaited: set[Latex] = set()
        self._pool: ThreadPoolExecutor | None = None
        self._is_closed = False
        # queued, since a formula can be drawn before whoever asked has written down where it belongs
        self._finished.connect(self._on_finished, Qt.ConnectionType.QueuedConnection)

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
            if self._pool is None:
                self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="formulas")
            self._pool.submit(draw, latex.content, latex.displayed).add_done_callback(
                lambda done: self._tell(latex, done)
            )
        return False

    def close(self) -> None:
        """Draw nothing more, now and later; what waits to be drawn is given up."""
        self._is_closed = True
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _tell(self, latex: Latex, done: "Future[Formula | None]") -> None:
        if not done.cancelled():
            self._finished.emit(latex, done.result())

    def _on_finished(self, latex: Latex, picture: Formula | None) -> None:
        self._awaited.discard(latex)
        if len(self._pictures) >= _MOST:
            del self._pictures[next(iter(self._pictures))]
        self._pictures[latex] = picture
        self.drawn.emit(latex)
