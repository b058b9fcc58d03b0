"""Recordings: the rounds of a conversation in a file, written and read in steps."""

import logging
import math
import time
from array import array
from collections.abc import Iterator
from dataclasses import asdict, fields
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from PySide6.QtCore import QObject, QTimer, Signal

from app.i18n.number_text import Number
from app.i18n.sentences import reason_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system import json_text as json
from app.system.files import chosen_replacement
from app.tree.rounds.player import Player
from app.tree.rounds.snapshot import MalformedTreeError, snapshot
from engine.errors import InputError
from engine.files import Replacement, open_ordinary
from engine.protocol.messages import Round, Seconds, Tree
from engine.protocol.watching import TargetLogProbs

_log = logging.getLogger(__name__)

LARGEST_BYTES = 2 << 30
_LONGEST_LINE = 16 << 20
_MOST_NODES = 65_536
_MOST_EMPTY_LINES = 100  # one after the other: they give a slice of reading no end
_MOST_SECONDS = 1e9
_HINT = mark("Choose a file that was saved with 'Save recording', or one that '--trace' wrote.")


def recording_line(of: Round) -> str:
    """A round as a line of a recording, its end included."""
    return json.dumps(_line(of), ensure_ascii=False, separators=(",", ":")) + "\n"


def read_recording(path: Path) -> Iterator[Round]:
    """The rounds one by one, so that a long file can be read in pieces. Raises `InputError` with the line.

    A last line that breaks off is what a program leaves that was ended while it wrote: `TruncatedError`, after all
    rounds before it.
    """
    try:
        if path.stat().st_size > LARGEST_BYTES:
            words = tr("'{name}' is larger than {size} GB.").format(name=path.name, size=LARGEST_BYTES >> 30)
            raise InputError(words, tr(_HINT))
        with TextIOWrapper(open_ordinary(path), encoding="utf-8") as file:
            yield from _rounds(file, path.name)
    except UnicodeDecodeError:
        words = tr("'{name}' is no recording: it is not text.").format(name=path.name)
        raise InputError(words, tr(_HINT)) from None
    except OSError as error:
        words = tr("'{name}' cannot be read: {reason}.").format(name=path.name, reason=reason_text(error))
        raise InputError(words, tr("Choose another file.")) from error


class TruncatedError(InputError):
    """The recording breaks off in the middle of a round."""


def _rounds(file: TextIO, name: str) -> Iterator[Round]:
    number = empty = 0
    while line := file.readline(_LONGEST_LINE + 1):
        if len(line) > _LONGEST_LINE:
            words = tr("Line {number} of '{name}' is longer than {size} MB.")
            raise InputError(words.format(number=number + 1, name=name, size=_LONGEST_LINE >> 20), tr(_HINT))
        is_empty = not line.strip()
        empty = empty + 1 if is_empty else 0
        if is_empty and empty <= _MOST_EMPTY_LINES:
            continue
        try:
            yield _checked(json.parse_json(line.encode()), number)
        except (ValueError, KeyError, TypeError, OverflowError, MalformedTreeError) as error:
            if number and not line.endswith("\n"):
                words = tr("'{name}' breaks off in the middle of round {number}; the {count} before are shown.")
                reason = words.format(name=name, number=number + 1, count=number)
                raise TruncatedError(reason, tr("The rest was never written.")) from None
            reason = tr("there is no {key}").format(key=error) if isinstance(error, KeyError) else tr(str(error))
            words = tr("Line {number} of '{name}' is no round: {reason}.")
            raise InputError(words.format(number=number + 1, name=name, reason=reason), tr(_HINT)) from None
        number += 1
    if not number:
        raise InputError(tr("'{name}' is empty.").format(name=name), tr(_HINT))


def _checked(line: Any, place: int) -> Round:
    if not isinstance(line, dict):
        raise TypeError(tr("it is not an object"))
    tokens, parents, log_probs = line["tokens"], line["parents"], line["log_probs"]
    if not isinstance(tokens, list) or not len(tokens) <= _MOST_NODES:
        raise ValueError(tr("it has more than {count} nodes, or none").format(count=f"{Number(_MOST_NODES):,}"))
    pieces = line.get("pieces") or [""] * len(tokens)
    read = Round(
        id=int(line.get("request", 0)),
        index=int(line.get("round", place)),
        tree=Tree(
            tokens=array("i", tokens).tobytes(),
            parents=array("i", parents).tobytes(),
            log_probs=_floats(log_probs),
            pieces=tuple(map(str, pieces)),
        ),
        accepted=tuple(map(int, line["accepted"])),
        bonus=int(line["bonus"]),
        bonus_piece=str(line.get("bonus_piece", "")),
        new_tokens=len(line["accepted"]),
        text="",
        seconds=_seconds(line.get("seconds")),
        method=str(line.get("method", "")),
        budget=int(line.get("budget", 0)),
        verdicts=_target_scores(line),
    )
    snapshot(read)
    return read


def _seconds(spent: Any) -> Seconds:
    if isinstance(spent, dict):
        known = {each.name for each in fields(Seconds)}
        return Seconds(**{name: _plausible(value) for name, value in spent.items() if name in known})
    return Seconds(decode=_plausible(spent or 0))


def _plausible(seconds: Any) -> float:
    """A time that can be shown and played: Python's JSON knows NaN and infinity."""
    told = float(seconds)
    return 0.0 if math.isnan(told) else min(max(told, 0.0), _MOST_SECONDS)


def _target_scores(line: dict[str, Any]) -> TargetLogProbs | None:
    if not line.get("ranks"):
        return None
    return TargetLogProbs(_floats(line["target_log_probs"]), array("i", line["ranks"]).tobytes())


def _floats(values: list[float | None]) -> bytes:
    """JSON knows no infinity."""
    return array("f", [-math.inf if each is None else each for each in values]).tobytes()


def _finite(values: list[float]) -> list[float | None]:
    return [each if math.isfinite(each) else None for each in values]


def _line(of: Round) -> dict[str, Any]:
    tree = snapshot(of)
    log_probs, ranks = tree.target_log_probs, tree.ranks
    return {
        "round": of.index,
        "request": of.id,
        "tokens": tree.tokens.tolist(),
        "parents": tree.parents.tolist(),
        "log_probs": _finite(tree.log_probs.tolist()),
        "depths": tree.depths.tolist(),
        "accepted": list(of.accepted),
        "bonus": of.bonus,
        "seconds": asdict(of.seconds),
        "pieces": list(of.tree.pieces),
        "bonus_piece": of.bonus_piece,
        "method": of.method,
        "budget": of.budget,
        "target_log_probs": [] if log_probs is None else _finite(log_probs.tolist()),
        "ranks": [] if ranks is None else ranks.tolist(),
    }


_SLICE_SECONDS = 0.015
_AGAIN_MS = 15  # until what is on its way is looked for again


class Saving(QObject):
    """One recording at a time. It is written beside its place, and takes it when it is whole."""

    progressed = Signal(int, int)  # rounds written, of how many
    ended = Signal(str)  # in words

    def __init__(self, player: Player, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._player = player
        self._history = player.history
        self._file: Replacement | None = None
        self._path = Path()
        self._next = self._count = self._written = 0
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._write_on)

    @property
    def is_running(self) -> bool:
        """Whether something is being written."""
        return self._file is not None

    def begin(self, path: Path) -> None:
        """Write all rounds that there are now to this place."""
        assert self._file is None, "one at a time"
        self._path, self._history = path, self._player.history
        self._next = self._written = 0
        self._count = len(self._history)
        try:
            self._file = chosen_replacement(path)
        except OSError as error:
            self._fail(error)
            return
        self._write_on()

    def stop(self) -> None:
        """Write no more, as other rounds are looked at; leave nothing behind, and tell it."""
        if self.is_running:
            self._discard()
            self.ended.emit(tr("The recording was not saved: other rounds are shown now."))

    def _write_on(self) -> None:
        """For a moment; then the window has its turn."""
        assert self._file is not None, "the timer runs only while something is written"
        until = time.monotonic() + _SLICE_SECONDS
        history = self._history
        try:
            while self._next < self._count and time.monotonic() < until:
                if history.missing(self._next, self._next + 1):
                    self._player.want(self._next)
                    break
                kept = history.round(self._next)
                self._next += 1
                if kept is not None:
                    self._write(self._file, kept)
            if self._next >= self._count:
                self._finish()
                return
        except OSError as error:
            self._fail(error)
            return
        self.progressed.emit(self._next, self._count)
        self._timer.start(_AGAIN_MS if history.missing(self._next, self._next + 1) else 0)

    def _write(self, file: Replacement, kept: Round) -> None:
        """One round; one whose tree is malformed could not be read again, and counts as lost."""
        try:
            line = recording_line(kept)
        except MalformedTreeError as error:
            _log.warning("Round %d is left out: %s", kept.index, error)
            return
        file.write(line.encode("utf-8", "replace"))
        self._written += 1

    def _finish(self) -> None:
        assert self._file is not None, "only what was begun ends"
        self._file.commit()
        self._file = None
        lost = self._count - self._written
        one, more = tr("1 round was saved in {name}."), tr("{count} rounds were saved in {name}.")
        words = (one if self._written == 1 else more).format(count=f"{Number(self._written):,}", name=self._path.name)
        if lost:
            words += " " + tr("{count} are not kept any more.").format(count=f"{Number(lost):,}")
        self.ended.emit(words)

    def _discard(self) -> None:
        self._timer.stop()
        if self._file is not None:
            self._file.discard()
            self._file = None

    def _fail(self, error: OSError) -> None:
        self._discard()
        self.ended.emit(tr("The recording could not be saved: {reason}.").format(reason=reason_text(error)))
