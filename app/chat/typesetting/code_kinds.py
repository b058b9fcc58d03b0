"""The kinds of the tokens of code, as far as they are known already; the rest is asked for and comes later."""

from collections import Counter
from typing import Any, NamedTuple

from PySide6.QtCore import QObject, Signal

from app.chat.typesetting.typesetter import Typesetter, TypesettingJob

_LONGEST = 6_000  # characters; what is longer comes from nobody's editor
_LONGEST_LANGUAGE = 40
_MOST = 1_000
_MOST_MISSES = 3  # of one language; the rest of the session does without its colours

Runs = tuple[tuple[int, str], ...]
"""The length of each stretch of a code, and the name of its kind of token; together they are as long as the code."""


class CodeText(NamedTuple):
    """Code in a language, as it is shown."""

    code: str
    language: str

    @property
    def is_urgent(self) -> bool:
        """What is shown has no colours until then."""
        return True

    @property
    def request(self) -> dict[str, object]:
        """How its kinds are asked for."""
        return {"code": self.code, "language": self.language}


class CodeKinds(QObject):
    """`found` tells of code whose kinds are known now. Where they cannot be had in time there are none."""

    found = Signal(object)  # CodeText

    def __init__(self, typesetter: Typesetter, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._typesetter = typesetter
        self._known: dict[CodeText, Runs] = {}
        self._last: dict[str, CodeText] = {}  # by language: what was known last
        self._awaited: set[CodeText] = set()
        self._asked: dict[str, CodeText] = {}  # by language: what was asked last
        self._missed: dict[str, CodeText] = {}
        self._misses: Counter[str] = Counter()
        typesetter.answered.connect(self._on_answered)

    def is_settled(self, text: CodeText) -> bool:
        """Whether nothing more will be known about it."""
        return text in self._known or not self._is_tried(text)

    def runs(self, text: CodeText) -> Runs:
        """All that is known at once: those of the code, or of its begin where that was shown a moment ago."""
        if text in self._known:
            return self._known[text]
        if not self._is_tried(text):
            return ()
        self._ask(text)
        before = self._last.get(text.language)
        return _shared(text.code, before.code, self._known.get(before, ())) if before is not None else ()

    def _is_tried(self, text: CodeText) -> bool:
        if not text.language or len(text.language) > _LONGEST_LANGUAGE or len(text.code) > _LONGEST:
            return False
        missed = self._missed.get(text.language)
        goes_on = missed is not None and text.code.startswith(missed.code)
        return not goes_on and self._misses[text.language] < _MOST_MISSES

    def _ask(self, text: CodeText) -> None:
        """Ask for it, and drop the request for the shorter text that it has grown from."""
        if text in self._awaited:
            return
        before = self._asked.get(text.language)
        if before in self._awaited and text.code.startswith(before.code):
            self._awaited.discard(before)
            self._typesetter.drop(lambda job: job == before)
        self._awaited.add(text)
        self._asked[text.language] = text
        self._typesetter.ask(text)

    def _on_answered(self, job: TypesettingJob, answer: Any) -> None:
        if not isinstance(job, CodeText):
            return
        self._awaited.discard(job)
        if answer is None:
            self._missed[job.language] = job
            self._misses[job.language] += 1
        if len(self._known) >= _MOST:
            del self._known[next(iter(self._known))]
        self._known[job] = _runs_of(answer, job.code)
        self._last[job.language] = job
        self.found.emit(job)


def _shared(code: str, known: str, runs: Runs) -> Runs:
    """The runs of the begin of a code, where it goes on with known code or is its begin or its end."""
    if code.startswith(known):
        return runs
    start = 0 if known.startswith(code) else len(known) - len(code) if known.endswith(code) else len(known)
    shared, place = [], 0
    for length, kind in runs:
        begin, end = max(place, start), min(place + length, start + len(code))
        if begin < end:
            shared.append((end - begin, kind))
        place += length
    return tuple(shared)


def _runs_of(answer: Any, code: str) -> Runs:
    """The runs of an answer, if they are those of this code."""
    try:
        runs = tuple((int(length), str(kind)) for length, kind in answer or ())
    except (TypeError, ValueError):
        return ()
    fits = all(length > 0 for length, _ in runs) and sum(length for length, _ in runs) == len(code)
    return runs if fits else ()
