"""Loading where memory runs out: how often it is tried, with how much, what is freed, and what is remembered."""

import json
from collections.abc import Generator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import Cancellation, ModelError, OutOfMemory
from engine.loading import oom_retry
from engine.loading.memory_limits import DAY, Limits, MemoryLimits
from engine.loading.pair import Pair, open_pair
from engine.protocol.messages import Event, Loading
from engine.protocol.options import LoadOptions
from engine.weights.planning.machine import GIB, Memory
from engine.weights.planning.needs import Workload
from engine.weights.planning.placement import Override, Plan, plan
from tests.engine.weights.test_placement import gpu, model

CPU = torch.device("cpu")
MEMORY = Memory(64 * GIB, vram_free=24 * GIB, has_gpu=True)
ON_GPU = "CUDA out of memory. Tried to allocate 1.59 GiB."
PINNING = MemoryError("The system refused to pin memory for the GPU (CUDA error 2).")


@cache
def planned(override: Override) -> Plan:
    """A plan of a 70B model for a GPU of 24 GiB takes a third of a second."""
    return plan(model(), None, gpu(24, 64), Workload(2048), override)


class Machine:
    """A GPU of 24 GiB and a 70B model on it, planned for in earnest; loading fails as often as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, errors: list[Exception]) -> None:
        self.plans: list[Plan] = []
        self.events: list[Event] = []
        self._errors = errors
        monkeypatch.setattr(oom_retry, "plan_target", self._plan)

    def load(self, pair: Pair, memory: Memory = MEMORY) -> str:
        good = MemoryLimits(pair, CPU, memory)
        steps = oom_retry.load_with_retries(1, pair, CPU, good, Cancellation(), self._attempt)
        while True:
            try:
                self.events.append(next(steps))
            except StopIteration as end:
                result: str = end.value
                return result

    @property
    def stages(self) -> list[str]:
        return [event.stage for event in self.events if isinstance(event, Loading)]

    def resident(self, tier: str) -> list[int]:
        return [each.arrangement.tiers.count(tier) for each in self.plans]

    def _plan(
        self, _request: int, _target: Any, _draft: Any, options: LoadOptions, *_others: Any
    ) -> Generator[Event, None, Plan]:
        yield from ()
        override = Override(
            options.place, (), options.vram_limit_bytes or None, options.ram_limit_bytes or None, options.force
        )
        return planned(override)

    def _attempt(self, planned: Plan) -> Generator[Event, None, str]:
        self.plans.append(planned)
        yield Loading(1, "Loading 70B", 4, 80)
        if self._errors:
            raise self._errors.pop(0)
        return "loaded"


@pytest.fixture(scope="module")
def embedded() -> Pair:
    return open_pair(LoadOptions(weights="float32"))


@pytest.fixture
def pair(embedded: Pair, tmp_path: Path) -> Pair:
    return replace(embedded, options=replace(embedded.options, cache_dir=str(tmp_path)))


def test_nothing_is_retried_where_memory_suffices(monkeypatch: pytest.MonkeyPatch, pair: Pair, tmp_path: Path) -> None:
    machine = Machine(monkeypatch, [])
    assert machine.load(pair) == "loaded"
    assert len(machine.plans) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_every_retry_keeps_fewer_layers_on_the_gpu(monkeypatch: pytest.MonkeyPatch, pair: Pair, failures: int) -> None:
    machine = Machine(monkeypatch, [torch.OutOfMemoryError(ON_GPU) for _ in range(failures)])
    assert machine.load(pair) == "loaded"
    on_device = machine.resident("device")
    assert len(on_device) == failures + 1
    assert all(later < earlier for earlier, later in pairwise(on_device))
    told = [stage for stage in machine.stages if stage.startswith("Memory ran out")]
    assert len(told) == failures
    assert "during 'Loading 70B', step 5 of 80: 1.6 GiB of GPU memory were asked for; " in told[0]
    assert sum(stage.startswith("Trying again: ") for stage in machine.stages) == failures


def test_ram_that_cannot_be_pinned_leaves_the_gpus_layers_alone(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> None:
    machine = Machine(monkeypatch, [PINNING])
    machine.load(pair)
    assert machine.resident("ram")[1] < machine.resident("ram")[0]
    assert machine.resident("device")[1] == machine.resident("device")[0]


def test_memory_that_always_runs_out_is_asked_for_four_times_in_all(
    monkeypatch: pytest.MonkeyPatch, pair: Pair, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, [torch.OutOfMemoryError(ON_GPU) for _ in range(100)])
    with pytest.raises(OutOfMemory, match=r"1\.6 GiB of GPU memory were asked for") as raised:
        machine.load(pair)
    assert len(machine.plans) == 1 + len(oom_retry.SHARES_KEPT)
    assert raised.value.hint
    assert not list(tmp_path.iterdir()), "what did not work was remembered"


def test_one_shortage_after_another_lowers_both_memories(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> None:
    machine = Machine(monkeypatch, [torch.OutOfMemoryError(ON_GPU), PINNING])
    machine.load(pair)
    assert machine.resident("device")[0] > machine.resident("device")[1] == machine.resident("device")[2]
    assert machine.resident("ram")[1] > machine.resident("ram")[2]


@pytest.mark.parametrize("chosen", [{"place": "ssd"}, {"force": True}])
def test_what_a_person_chose_is_not_changed_behind_their_back(
    monkeypatch: pytest.MonkeyPatch, pair: Pair, chosen: dict[str, Any]
) -> None:
    machine = Machine(monkeypatch, [torch.OutOfMemoryError(ON_GPU)])
    with pytest.raises(OutOfMemory) as raised:
        machine.load(replace(pair, options=replace(pair.options, **chosen)))
    assert len(machine.plans) == 1
    assert "chosen by hand" in raised.value.hint


def test_other_errors_are_not_retried(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> None:
    machine = Machine(monkeypatch, [ModelError("damaged")])
    with pytest.raises(ModelError):
        machine.load(pair)
    assert len(machine.plans) == 1


# ---- what worked last -----------------------------------------------------------------------------------------------


def taught(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> Plan:
    """The plan that worked after memory had run out twice."""
    machine = Machine(monkeypatch, [torch.OutOfMemoryError(ON_GPU) for _ in range(2)])
    machine.load(pair)
    return machine.plans[-1]


def test_the_next_load_begins_with_what_worked(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> None:
    good = taught(monkeypatch, pair)
    machine = Machine(monkeypatch, [])
    machine.load(pair)
    assert [each.arrangement for each in machine.plans] == [good.arrangement]
    assert machine.stages[0].startswith("Memory ran out with this pair before: planning with ")
    assert "GiB of GPU memory" in machine.stages[0]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 0}', b'{"version": 1, "pairs": 3}', b"\xff\xfe"])
def test_a_damaged_file_is_ignored_and_written_anew(
    monkeypatch: pytest.MonkeyPatch, pair: Pair, tmp_path: Path, content: bytes
) -> None:
    good = taught(monkeypatch, pair)
    (tmp_path / "memory.json").write_bytes(content)
    assert MemoryLimits(pair, CPU, MEMORY).limits == Limits()
    assert taught(monkeypatch, pair).arrangement == good.arrangement
    assert MemoryLimits(pair, CPU, MEMORY).limits.vram_bytes > 0


def test_a_folder_that_cannot_be_looked_at_holds_nothing(pair: Pair, tmp_path: Path) -> None:
    """As one of another user, or of a share that has gone; names that are too long fail for everybody."""
    cache_dir = str(tmp_path / ("long" * 100) / "cache")
    nowhere = MemoryLimits(replace(pair, options=replace(pair.options, cache_dir=cache_dir)), CPU, MEMORY)
    assert nowhere.limits == Limits()
    nowhere.remember(Limits(vram_bytes=GIB))


@pytest.mark.parametrize("field", ["vram_bytes", "tree_nodes", "ram_free", "tree_patience", "times"])
@pytest.mark.parametrize("value", ["-5", '"many"', "1.5", "true", "{}"])
def test_a_nonsensical_entry_is_ignored(
    monkeypatch: pytest.MonkeyPatch, pair: Pair, tmp_path: Path, field: str, value: str
) -> None:
    taught(monkeypatch, pair)
    path = tmp_path / "memory.json"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(f'"{field}": {value},' if f'"{field}"' in line else line for line in lines))
    assert MemoryLimits(pair, CPU, MEMORY).limits == Limits()


@pytest.mark.parametrize(
    "other", [{"weights": "bfloat16"}, {"context_tokens": 512}, {"budget": 256}, {"vram_limit_bytes": 20 * GIB}]
)
def test_other_options_begin_anew(monkeypatch: pytest.MonkeyPatch, pair: Pair, other: dict[str, Any]) -> None:
    taught(monkeypatch, pair)
    changed = replace(pair, options=replace(pair.options, **other))
    assert MemoryLimits(changed, CPU, MEMORY).limits == Limits()
    assert MemoryLimits(replace(pair, draft=None), CPU, MEMORY).limits == Limits()
    assert MemoryLimits(pair, CPU, MEMORY).limits != Limits()


def test_far_more_free_memory_makes_it_forget_for_good(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> None:
    taught(monkeypatch, pair)
    assert MemoryLimits(pair, CPU, replace(MEMORY, vram_free=26 * GIB, ram_free=100 * GIB)).limits != Limits()
    assert MemoryLimits(pair, CPU, replace(MEMORY, vram_free=40 * GIB)).limits == Limits()
    assert MemoryLimits(pair, CPU, MEMORY).limits == Limits(), "one load with far more memory, and the guess is void"


class Clock:
    """Days since 1970."""

    def __init__(self) -> None:
        self.days = 20_000.0

    def __call__(self) -> float:
        return self.days * DAY


def test_what_was_kept_is_retried_after_a_day_and_kept_longer_each_time(pair: Pair) -> None:
    clock, held = Clock(), []
    tight = Limits(vram_bytes=8 * GIB)
    for _ in range(4):
        good = MemoryLimits(pair, CPU, MEMORY, clock)
        assert good.limits == Limits()
        good.remember(tight)
        begin = clock.days
        while MemoryLimits(pair, CPU, MEMORY, clock).limits == tight:
            clock.days += 0.5
        held.append(clock.days - begin)
    assert held == [1.5, 2.5, 4.5, 8.5], "a day, and twice as long each time"


def test_a_shortage_long_after_the_last_one_is_the_first_again(pair: Pair) -> None:
    clock = Clock()
    for _ in range(2):
        MemoryLimits(pair, CPU, MEMORY, clock).remember(Limits(tree_nodes=16))
        clock.days += 30
    MemoryLimits(pair, CPU, MEMORY, clock).remember(Limits(tree_nodes=16))
    clock.days += 1.5
    assert MemoryLimits(pair, CPU, MEMORY, clock).limits == Limits()


def test_trees_that_grow_again_do_not_prolong_what_is_kept(pair: Pair, tmp_path: Path) -> None:
    clock = Clock()
    good = MemoryLimits(pair, CPU, MEMORY, clock)
    good.remember(Limits(tree_nodes=16, tree_patience=128))
    clock.days += 0.9
    again = MemoryLimits(pair, CPU, MEMORY, clock)
    assert again.limits == Limits(tree_nodes=16, tree_patience=128)
    again.remember(Limits(tree_nodes=24, tree_patience=128))
    clock.days += 0.2
    assert MemoryLimits(pair, CPU, MEMORY, clock).limits == Limits()
    again.remember(Limits(tree_patience=128))
    assert json.loads((tmp_path / "memory.json").read_text())["pairs"] == {}, "nothing is short any more"


@pytest.mark.parametrize("about", [{"at": 9e12}, {"at": -1}, {}])
def test_what_has_no_sensible_time_is_old(pair: Pair, tmp_path: Path, about: dict[str, float]) -> None:
    MemoryLimits(pair, CPU, MEMORY).remember(Limits(tree_nodes=16))
    path = tmp_path / "memory.json"
    document = json.loads(path.read_text())
    (entry,) = document["pairs"].values()
    for name in ("at", "times", "tree_patience"):
        del entry[name]
    entry |= about
    path.write_text(json.dumps(document))
    assert MemoryLimits(pair, CPU, MEMORY).limits == Limits()


def test_a_folder_that_cannot_be_written_only_means_finding_out_again(
    monkeypatch: pytest.MonkeyPatch, embedded: Pair, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    blocked = replace(embedded, options=replace(embedded.options, cache_dir=str(tmp_path / "file" / "cache")))
    taught(monkeypatch, blocked)
    assert MemoryLimits(blocked, CPU, MEMORY).limits == Limits()
