"""The file of what was measured of machines, and of what the last answer of a pair gave."""

import math
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.loading.answered import Answered
from engine.loading.store import CacheFile
from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.machine import Rates
from engine.weights.planning.needs import KvForm
from engine.weights.planning.seen import Given, Seen
from engine.weights.planning.ways import TreeYield

RECENT = 6  # answers that say how much texts differ
NAME = "rates.json"
VERSION = 1
PASS_TIMES = ("products", "attention", "stored", "calls", "levels", "host")
NOT_EVERYWHERE = ("stored", "calls", "levels", "host")  # these may be null
NUMBERS = ("link", "ssd", "memory", "tflops", "decode", "call_seconds")
OVERHEADS = ("pass_seconds", "round_seconds")
LATER = ("unpack",)  # files of before do not know them: 0


@dataclass(frozen=True, slots=True)
class Measured:
    """A machine's rates, and when they were measured: date and time in UTC; the best of so many `times`."""

    rates: Rates
    at: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class SeenHere:
    """What rounds took where `machine` says: another processor, or other threads, take another time.

    `earlier`: seconds of passes as each of the last answers left them, the newest last.
    """

    machine: str
    rounds: Seen
    earlier: tuple[PassTime, ...] = ()


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """What the last answer of a pair gave: tokens and seconds per pass of the target.

    `trees`: what trees of several sizes were expected to give by then. `seen`: what the pair's rounds have taken by
    then; None before enough of them. `answers`: the last ones, this one included.
    """

    tokens_per_pass: float
    seconds_per_pass: float
    trees: tuple[TreeYield, ...] = ()
    seen: SeenHere | None = None
    answers: tuple[Answered, ...] = ()

    @property
    def recent(self) -> tuple[float, ...]:
        """Tokens per pass of the last few answers."""
        return tuple(each.new_tokens / each.passes for each in self.answers[-RECENT:])

    @property
    def mean_tokens_per_pass(self) -> float:
        """Of all answers that are kept, each pass counting as much."""
        passes = sum(each.passes for each in self.answers)
        return sum(each.new_tokens for each in self.answers) / passes if passes else self.tokens_per_pass


class RatesFile:
    """What was measured of machines and pairs, in one cache folder."""

    def __init__(self, folder: Path) -> None:
        self._file = CacheFile(folder / NAME, VERSION)

    def recall(self, key: str) -> Measured | None:
        """The rates that were remembered under `key`."""
        return self._file.entry("machines", key, _measured)

    def remember(self, key: str, rates: Rates, times: int = 1) -> Measured:
        """Keep rates that were measured just now; the best of so many `times`."""
        measured = Measured(rates, datetime.now(UTC).isoformat(timespec="seconds"), times)
        document = asdict(measured)
        document["rates"] |= {name: _points(getattr(rates, name)) for name in PASS_TIMES}
        self._file.put("machines", key, document)
        return measured

    def recall_answer(self, key: str) -> LastAnswer | None:
        """What a pair gave when it was used last."""
        return self._file.entry("pairs", key, _last_answer)

    def remember_answer(self, key: str, last_answer: LastAnswer) -> None:
        """Keep what a pair gave."""
        rows = {name: [astuple(each) for each in getattr(last_answer, name)] for name in ("trees", "answers")}
        document = {**asdict(last_answer), **rows}
        if last_answer.seen:
            rounds = document["seen"]["rounds"]
            rounds |= {name: _points(getattr(last_answer.seen.rounds, name)) for name in ("passes", "levels")}
            document["seen"]["earlier"] = [_points(each) for each in last_answer.seen.earlier]
        self._file.put("pairs", key, document)


def _measured(value: Mapping[str, Any]) -> Measured:
    rates = value["rates"]
    at = datetime.fromisoformat(value["at"]).isoformat(timespec="seconds")
    passes = {name: _pass_time(rates[name]) for name in PASS_TIMES if name not in NOT_EVERYWHERE or rates[name]}
    numbers = {name: _positive(rates[name]) for name in NUMBERS}
    overheads = {name: _seconds(rates[name]) for name in OVERHEADS}
    overheads |= {name: _seconds(rates.get(name, 0.0)) for name in LATER}
    times = int(_positive(value.get("times", 1)))
    return Measured(Rates(**numbers, **passes, **overheads, few_rows=int(rates["few_rows"])), at, times)  # type: ignore[arg-type]


def _points(time: PassTime | None) -> dict[str, Any] | None:
    return {"points": list(zip(time.rows, time.seconds, strict=True))} if time else None


def _pass_time(value: Mapping[str, Any]) -> PassTime:
    points = tuple((_positive(rows), _positive(seconds)) for rows, seconds in value["points"])
    if not points or any(low >= high for (low, _), (high, _) in pairwise(points)):
        raise ValueError("rows must ascend")
    return PassTime(*zip(*points, strict=True))


def _last_answer(value: Mapping[str, Any]) -> LastAnswer:
    trees = tuple(_tree_figures(*each) for each in value.get("trees", ()))
    seen = _seen(value["seen"]) if value.get("seen") else None
    answers = tuple(_answered(*each) for each in value.get("answers", ()))
    return LastAnswer(_positive(value["tokens_per_pass"]), _positive(value["seconds_per_pass"]), trees, seen, answers)


def _answered(new_tokens: Any, passes: Any, seconds: Any, drafted: Any, place: Any) -> Answered:
    tokens, count = int(_positive(new_tokens)), int(_positive(passes))
    return Answered(tokens, count, _positive(seconds), int(_seconds(drafted)), str(place))


def _tree_figures(nodes: Any, tokens: Any, levels: Any, depth: Any = 0) -> TreeYield:
    return TreeYield(int(nodes), _positive(tokens), _positive(levels), int(depth))


def _seen(value: Mapping[str, Any]) -> SeenHere:
    rounds = value["rounds"]
    device, ram, ssd = (int(count) for count in rounds["tiers"])
    hidden = min(_seconds(rounds["hidden"]), 1.0)
    levels = _pass_time(rounds["levels"]) if rounds["levels"] else None
    kv_form: KvForm = "8 bits" if rounds.get("kv_form") == "8 bits" else "computed"
    given = _given(rounds["given"]) if rounds.get("given") else None
    seen = Seen((device, ram, ssd), _pass_time(rounds["passes"]), hidden, levels, kv_form, given)
    return SeenHere(str(value["machine"]), seen, tuple(_pass_time(each) for each in value.get("earlier", ())))


def _given(value: Mapping[str, Any]) -> Given:
    numbers = {name: _positive(value[name]) for name in ("tokens_per_pass", "seconds", "least", "most")}
    beyond = _positive(value.get("beyond", 1.0))
    return Given(answers=int(value["answers"]), nodes=_seconds(value["nodes"]), beyond=beyond, **numbers)


def _positive(value: Any) -> float:
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError("a rate is a number above 0")
    return number


def _seconds(value: Any) -> float:
    """0 where it costs nothing."""
    number = float(value)
    if not 0 <= number < math.inf:
        raise ValueError("seconds are no less than 0")
    return number
