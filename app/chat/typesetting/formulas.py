"""The formulas that are drawn already; others are drawn by a process beside the window."""

from typing import Any, NamedTuple

from PySide6.QtCore import QObject, Signal

from app.chat.typesetting.code_kinds import CodeKinds
from app.chat.typesetting.formula_drawing import Formula, formula_of
from app.chat.typesetting.typesetter import Typesetter, TypesettingJob
from app.ui.throttle import Throttle

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

    @property
    def is_urgent(self) -> bool:
        """Code goes first: it is there at once, and a formula can take its time."""
        return False

    @property
    def request(self) -> dict[str, object]:
        """How it is asked for."""
        return {"latex": self.content, "displayed": self.displayed}


class Formulas(QObject):
    """Gives pictures of formulas; `settled` says which are there now, or cannot be had, at most once a frame.

    `code` gives the kinds of the tokens of code, which the same process finds.
    """

    settled = Signal(object)  # a set of Latex

    def __init__(self, parent: QObject | None = None, typesetter: Typesetter | None = None) -> None:
        super().__init__(parent)
        self._pictures: dict[Latex, Formula | None] = {}
        self._awaited: set[Latex] = set()
        self._settled: set[Latex] = set()  # since the last time that somebody was told
        self._telling = Throttle(self._tell, parent=self)
        self.typesetter = typesetter or Typesetter(self)
        self.typesetter.answered.connect(self._on_answered)
        self.code = CodeKinds(self.typesetter, self)

    def picture(self, latex: Latex) -> Formula | None:
        """The picture, if it is there."""
        return self._pictures.get(latex)

    def is_known(self, latex: Latex) -> bool:
        """Whether it is settled how this formula looks; if not, it is drawn and `settled` will tell."""
        if latex in self._pictures:
            return True
        if latex not in self._awaited:
            self._awaited.add(latex)
            self.typesetter.ask(latex)
        return False

    def give_up(self) -> None:
        """Nobody waits any more for what is not drawn yet."""
        self._awaited.clear()
        self.typesetter.drop(_is_latex)

    def close(self) -> None:
        """Draw nothing more, now and later; what waits to be drawn is given up."""
        self.give_up()
        self.typesetter.close()

    def _on_answered(self, job: TypesettingJob, answer: Any) -> None:
        if isinstance(job, Latex):
            self._on_finished(job, formula_of(answer))

    def _on_finished(self, latex: Latex, picture: Formula | None) -> None:
        self._awaited.discard(latex)
        if len(self._pictures) >= _MOST:
            del self._pictures[next(iter(self._pictures))]
        self._pictures[latex] = picture
        self._settled.add(latex)
        self._telling.request()

    def _tell(self) -> None:
        settled, self._settled = frozenset(self._settled), set()
        self.settled.emit(settled)


def _is_latex(job: TypesettingJob) -> bool:
    return isinstance(job, Latex)
