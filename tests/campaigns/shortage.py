"""An engine whose process may take little more memory than it has: it says so, and works again with more."""

import random
from collections.abc import Iterator
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_AS
from typing import Any

import psutil

from engine.protocol.messages import Failed, Generate, Ready
from engine.protocol.options import GenerateOptions, SpeculationOptions
from tests.campaigns.outcome import Kind, Outcome
from tests.engine.child import STORY, Child

MIB = 1 << 20


def memory_cases(folder: Path, seeds: range) -> Iterator[Outcome]:
    """Load and answer within 1 to 500 MiB more than the process has, then again without a limit."""
    child = Child(folder)
    try:
        assert isinstance(child.receive(), Ready)
        child.load(1)
        for seed in seeds:
            yield _of_memory(child, 10 * (seed - seeds.start + 1), seed)
    finally:
        child.close()


def _of_memory(child: Child, request: int, seed: int) -> Outcome:
    rng = random.Random(seed)
    room, place = int(2 ** rng.uniform(0, 9)) * MIB, rng.choice(("device", "ssd", "auto"))
    weights, context = rng.choice(("bfloat16", "float32", "int8")), rng.choice((512, 1024, 2048))
    process = psutil.Process(child.process.pid)
    process.rlimit(RLIMIT_AS, (process.memory_info().vms + room, RLIM_INFINITY))
    said = [
        _ending(child.load(request, place=place, weights=weights, context_tokens=context)),
        _ending(_answer(child, request + 1, budget=rng.choice((0, 64, 1024)))),
    ]
    process.rlimit(RLIMIT_AS, (RLIM_INFINITY, RLIM_INFINITY))
    after = [_ending(child.load(request + 2)), _ending(_answer(child, request + 3))]
    what = f"{room // MIB} MiB for {weights}, {context} tokens, {place}"
    if any(after):
        return Outcome(seed, Kind.LOST, f"{what}: with enough memory again: {after}; before: {said}"[:500])
    sentences = [each for each in said if each]
    if any("unexpected error" in each or "Traceback" in each for each in sentences):
        return Outcome(seed, Kind.TRACEBACK, f"{what}: {sentences}"[:500])
    return Outcome(seed, Kind.TOLD if sentences else Kind.SURVIVED, f"{what}: {sentences}"[:300])


def _answer(child: Child, request: int, budget: int = 0) -> list[Any]:
    options = GenerateOptions(speculation=SpeculationOptions(budget=budget), max_new_tokens=16)
    child.connection.send(Generate(request, STORY, options))
    return child.until_the_end(request)


def _ending(events: list[Any]) -> str:
    """What was said of a failure, or nothing."""
    return events[-1].message if isinstance(events[-1], Failed) else ""
