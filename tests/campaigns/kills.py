"""The window and its engine, killed at random moments: what was on the screen for a second is there afterwards."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.app.conftest import FAKE_ENGINE
from tests.app.crashes.journal import Loss
from tests.app.crashes.killing import Place, kill_application, kill_engines
from tests.campaigns.outcome import Kind, Outcome

ENGINES_AT_ONCE = 10  # killed under one application


def place_in(folder: Path, is_real: bool) -> Place:
    """All kills share one database; the engine is the real one with the embedded pair, or streams words alone."""
    if is_real:
        return Place(folder)
    script = folder / "engine-python"
    script.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(FAKE_ENGINE))}\n")
    script.chmod(0o755)
    return Place(folder, script)


def window_cases(folder: Path, seeds: range, is_real: bool = False) -> Iterator[Outcome]:
    """Kill the application once per seed, with somebody restless in front of it."""
    place = place_in(folder, is_real)
    for seed in seeds:
        yield _outcome(place, seed, kill_application(place, seed))


def engine_cases(folder: Path, seeds: range, is_real: bool = False) -> Iterator[Outcome]:
    """Kill one engine per seed, ten under one application: the first seed of ten is the one that repeats them."""
    place = place_in(folder, is_real)
    for first in range(seeds.start, seeds.stop, ENGINES_AT_ONCE):
        batch = range(first, min(first + ENGINES_AT_ONCE, seeds.stop))
        yield _outcome(place, first, kill_engines(place, first, len(batch)))
        yield from (Outcome(seed, Kind.SURVIVED) for seed in batch[1:])


real_window_cases = partial(window_cases, is_real=True)
real_engine_cases = partial(engine_cases, is_real=True)


def _outcome(place: Place, seed: int, lost: Sequence[Loss]) -> Outcome:
    if lost:
        return Outcome(seed, Kind.LOST, "; ".join(map(str, lost))[:500])
    said = place.output.read_text(errors="replace")
    if "Traceback" in said:
        return Outcome(seed, Kind.TRACEBACK, said[-500:])
    return Outcome(seed, Kind.SURVIVED)
