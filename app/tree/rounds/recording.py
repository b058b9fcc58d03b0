"""Recordings of rounds: one JSON object a line, as `coppice-engine generate --trace` writes them, and the texts.

A recording comes from anywhere: nothing in it is trusted, and whatever is wrong with it is said with its line.
"""

import math
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TextIO

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system import json_text as json
from app.tree.rounds.snapshot import MalformedTreeError, snapshot
from engine.errors import InputError
from engine.protocol.messages import Round, Seconds, Tree
from engine.protocol.watching import Verdicts

LARGEST_BYTES = 2 << 30
_LONGEST_LINE = 16 << 20
_MOST_NODES = 65_536
_HINT = mark("Choose a file that was saved with 'Save recording', or one that '--trace' wrote.")


def write_recording(path: Path, rounds: Iterable[Round]) -> int:
    """One line per round; returns how many. Raises `OSError`."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for each in rounds:
            file.write(recording_line(each))
            count += 1
    return count


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
        with path.open(encoding="utf-8") as file:
            yield from _rounds(file, path.name)
    except UnicodeDecodeError:
        words = tr("'{name}' is no recording: it is not text.").format(name=path.name)
        raise InputError(words, tr(_HINT)) from None
    except OSError as error:
        words = tr("'{name}' cannot be read: {reason}.").format(name=path.name, reason=error.strerror or error)
        raise InputError(words, tr("Choose another file.")) from error


class TruncatedError(InputError):
    """The recording breaks off in the middle of a round."""


def _rounds(file: TextIO, name: str) -> Iterator[Round]:
    number = 0
    while line := file.readline(_LONGEST_LINE + 1):
        if len(line) > _LONGEST_LINE:
            words = tr("Line {number} of '{name}' is longer than {size} MB.")
            raise InputError(words.format(number=number + 1, name=name, size=_LONGEST_LINE >> 20), tr(_HINT))
        if not line.strip():
            continue
        try:
            yield _checked(json.loads(line), number)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError, MalformedTreeError) as error:
            if number and not line.endswith("\n"):
                words = tr("'{name}' breaks off in the middle of round {number}; the {count} before are shown.")
                reason = words.format(name=name, number=number + 1, count=number)
                raise TruncatedError(reason, tr("The rest was never written.")) from None
            reason = tr("there is no {key}").format(key=error) if isinstance(error, KeyError) else str(error)
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
        verdicts=_verdicts(line),
    )
    snapshot(read)
    return read


def _seconds(spent: Any) -> Seconds:
    if isinstance(spent, dict):
        known = {each.name for each in fields(Seconds)}
        return Seconds(**{name: float(value) for name, value in spent.items() if name in known})
    return Seconds(decode=float(spent or 0))


def _verdicts(line: dict[str, Any]) -> Verdicts | None:
    if not line.get("ranks"):
        return None
    return Verdicts(_floats(line["target_log_probs"]), array("i", line["ranks"]).tobytes())


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
