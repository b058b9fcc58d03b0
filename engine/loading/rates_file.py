"""What was measured on this machine, remembered as JSON in the cache folder."""

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.machine import Rates
from engine.weights.store.atomic_file import replaced_atomically

Found = TypeVar("Found")

NAME = "rates.json"
VERSION = 1
MOST_KEPT = 64  # of each kind; the oldest go first
PASS_TIMES = ("products", "attention")
NUMBERS = ("link", "ssd", "memory", "tflops", "decode", "call_seconds")


@dataclass(frozen=True, slots=True)
class Measured:
    """A machine's rates, and when they were measured: date and time in UTC."""

    rates: Rates
    at: str


@dataclass(frozen=True, slots=True)
class Experience:
    """What the last answer of a pair gave: tokens and seconds per pass of the target."""

    tokens_per_pass: float
    seconds_per_pass: float


class RatesFile:
    """The file of one cache folder. One that is damaged or foreign counts as empty, and is written anew."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def recall(self, key: str) -> Measured | None:
        """The rates that were remembered under `key`."""
        return _checked(_measured, self._read("machines").get(key))

    def remember(self, key: str, rates: Rates) -> Measured:
        """Keep rates that were measured just now; a folder that cannot be written means measuring again next time."""
        measured = Measured(rates, datetime.now(UTC).isoformat(timespec="seconds"))
        document = asdict(measured)
        for name in PASS_TIMES:
            if (passes := getattr(rates, name)) is not None:
                document["rates"][name] = {"points": list(zip(passes.rows, passes.seconds, strict=True))}
        self._write("machines", key, document)
        return measured

    def recall_pair(self, key: str) -> Experience | None:
        """What a pair gave when it was used last."""
        return _checked(_experience, self._read("pairs").get(key))

    def remember_pair(self, key: str, experience: Experience) -> None:
        """Keep what a pair gave."""
        self._write("pairs", key, asdict(experience))

    def _read(self, kind: str) -> dict[str, Any]:
        try:
            document = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        known = isinstance(document, dict) and document.get("version") == VERSION
        found = document.get(kind) if known else None
        return found if isinstance(found, dict) else {}

    def _write(self, kind: str, key: str, value: dict[str, Any]) -> None:
        kept = {each: self._read(each) for each in ("machines", "pairs")}
        kept[kind] = dict(list({**_without(kept[kind], key), key: value}.items())[-MOST_KEPT:])
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with replaced_atomically(self._path) as file:
                file.write(json.dumps({"version": VERSION, **kept}, indent=1).encode())


def _without(entries: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if name != key}


def _checked(parse: Callable[[Any], Found], value: Any) -> Found | None:
    """What `parse` makes of a value that anybody may have written; None if it cannot make anything of it."""
    try:
        return parse(value) if isinstance(value, dict) else None
    except (KeyError, TypeError, ValueError):
        return None


def _measured(value: Mapping[str, Any]) -> Measured:
    rates = value["rates"]
    at = datetime.fromisoformat(value["at"]).isoformat(timespec="seconds")
    passes = {name: _pass_time(rates[name]) for name in PASS_TIMES}
    return Measured(Rates(**{name: _positive(rates[name]) for name in NUMBERS}, **passes), at)  # type: ignore[arg-type]


def _pass_time(value: Mapping[str, Any]) -> PassTime:
    points = tuple((int(rows), _positive(seconds)) for rows, seconds in value["points"])
    if not points or any(low >= high for (low, _), (high, _) in pairwise(points)):
        raise ValueError("rows must ascend")
    return PassTime(*zip(*points, strict=True))


def _experience(value: Mapping[str, Any]) -> Experience:
    return Experience(_positive(value["tokens_per_pass"]), _positive(value["seconds_per_pass"]))


def _positive(value: Any) -> float:
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError("a rate is a number above 0")
    return number
