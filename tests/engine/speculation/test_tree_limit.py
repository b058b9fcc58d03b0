"""Trees shrink when memory runs out and grow again when it is back; what is short for good is tried ever less often."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from engine.errors import OutOfMemory
from engine.speculation.interfaces import Choice, RoundResult
from engine.speculation.tuning.auto import Auto
from engine.speculation.tuning.throughput_model import ThroughputModel
from engine.speculation.tuning.tree_limit import MOST_PATIENCE, PATIENCE, TreeLimit
from tests.engine.speculation.simulation import Machine, Named


class Method:
    """Has nothing to forget."""

    def prefill(self, _tokens: list[int]) -> None:
        pass


class Simulation:
    """Rounds that ask for trees of one size, on a machine that has room for so many nodes at so many rounds."""

    def __init__(self, room: Callable[[int], int], wanted: int = 128, limit: TreeLimit | None = None) -> None:
        self.limit = limit or TreeLimit()
        self.shortages: list[int] = []  # the rounds in which memory ran out
        self.sizes: list[int] = []
        self._room, self._wanted, self._round = room, wanted, 0

    def run(self, rounds: int) -> "Simulation":
        for _ in range(rounds):
            self.limit.rescue(self._attempt, [1, 2], lambda: 0)
            self._round += 1
        return self

    def _attempt(self) -> RoundResult:
        choice = self.limit.cut(Choice(cast(Any, Method()), self._wanted, 8))
        size = choice.budget if choice.depth else 0
        if size > self._room(self._round):
            self.shortages.append(self._round)
            raise OutOfMemory("Memory ran out.")
        self.sizes.append(size)
        return cast(RoundResult, None)


def test_a_shortage_that_passes_leaves_no_trace() -> None:
    story = Simulation(lambda number: 64 if 100 <= number < 103 else 1000).run(100 + 5 * PATIENCE)
    assert story.shortages == [100]
    assert story.sizes[101] == 64
    assert story.sizes[-1] == 128
    assert story.limit.nodes is None
    assert story.limit.words == "Memory ran out. Trees were smaller for a while."
    story.limit.begin()
    assert story.limit.words == ""


def test_trees_grow_in_steps() -> None:
    story = Simulation(lambda number: 1000 if number else 64).run(1 + 4 * PATIENCE)
    steps = [size for number, size in enumerate(story.sizes) if number == 0 or size != story.sizes[number - 1]]
    assert steps == [64, 96, 128]


def test_a_shortage_for_good_is_tried_again_ever_more_rarely() -> None:
    story = Simulation(lambda _number: 80).run(40_000)
    assert max(story.sizes) <= 80
    waits = [later - before for before, later in zip(story.shortages, story.shortages[1:], strict=False)]
    assert waits[:10] == sorted(waits[:10]), "longer each time"
    assert waits[-1] >= MOST_PATIENCE
    assert len(story.shortages) < 20, "of 40,000 rounds"
    assert sum(story.sizes) / len(story.sizes) > 48


def test_from_plain_decoding_too_there_is_a_way_back() -> None:
    story = Simulation(lambda number: 0 if number < 3 else 1000).run(3000)
    assert story.sizes[0] == 0
    assert story.sizes[-1] == 128
    assert story.limit.nodes is None


def test_where_nobody_wants_a_tree_any_more_the_limit_goes_all_the_same() -> None:
    limit = TreeLimit(0)
    Simulation(lambda _number: 1000, wanted=0, limit=limit).run(PATIENCE)
    assert limit.nodes is None


def test_once_trees_as_big_as_the_one_that_failed_go_well_the_limit_is_raised_fast() -> None:
    story = Simulation(lambda number: 0 if number < 30 else 1000).run(30)
    assert story.limit.patience > PATIENCE
    wait = story.limit.patience
    assert story.run(2 * wait + 10 * PATIENCE).sizes[-1] > 16
    assert story.limit.patience == PATIENCE


def test_a_tree_that_ended_before_its_limit_is_halved_itself() -> None:
    limit = TreeLimit()

    def attempt() -> RoundResult:
        choice = limit.cut(Choice(cast(Any, Method()), 100, 8))
        limit.drafted = min(20, choice.budget)
        if limit.drafted > 12:
            raise OutOfMemory("Memory ran out.")
        return cast(RoundResult, None)

    limit.rescue(attempt, [1, 2], lambda: 0)
    assert limit.nodes == 10


def test_rounds_that_had_to_do_without_a_tree_say_nothing_of_trees() -> None:
    machine, model = Machine(lambda _rows: 1.0, 0.003), ThroughputModel()
    model.observe(machine.round(Choice(Named("specexec"), 8, 8), 0), 0.0)
    trees, known = model.methods["specexec"], model.methods["specexec"].acceptance.state
    model.observe(machine.round(Choice(Named("specexec"), 8, 0), 1), 0.0)
    assert (trees.rounds, trees.acceptance.state) == (1, known)
    assert model.rounds == 2, "but of passes"


@pytest.mark.parametrize("short", [3, 40])
def test_auto_grows_trees_again_soon_after_memory_is_back(short: int) -> None:
    """While there was none it could not see what trees give, and must not take that for what they give."""
    limit, model = TreeLimit(), ThroughputModel()
    machine = Machine(lambda rows: max(1.0, rows / 16), 0.003, 0.0001, 0.01)
    rounds = 0

    def attempt() -> RoundResult:
        result = machine.round(limit.cut(auto.choose([0, 0], 10_000)), rounds)
        limit.drafted = result.tree.drafted
        if result.tree.drafted and 10 <= rounds < 10 + short:
            raise OutOfMemory("Memory ran out.")
        auto.learn(result)
        return result

    for answer in range(4):
        auto = Auto([Named("specexec")], Named("none"), model, 64, 32, lambda: 0.0)
        auto.prefill([0])
        results = []
        for _ in range(10 + short + 40):
            results.append(limit.rescue(attempt, [1, 2], lambda: 0))
            rounds += 1
        assert any(result.choice.is_short for result in results) or answer
    sizes = [result.tree.drafted for result in results]
    assert sum(sizes) / len(sizes) > 8
    assert not any(result.choice.is_short for result in results)


def test_a_bigger_tree_than_ever_before_is_another_matter() -> None:
    limit = TreeLimit()
    for _ in range(3):
        Simulation(lambda number: 1000 if number else 8, wanted=16, limit=limit).run(1 + 2 * limit.patience)
    assert limit.patience == 4 * PATIENCE
    limit.nodes = None
    Simulation(lambda number: 1000 if number else 200, wanted=256, limit=limit).run(1)
    assert limit.patience == PATIENCE


def test_rounds_with_small_trees_say_nothing_about_big_ones() -> None:
    limit = TreeLimit(64)
    Simulation(lambda _number: 1000, wanted=8, limit=limit).run(10 * PATIENCE)
    assert limit.nodes == 64


def test_a_kept_limit_that_holds_nothing_back_is_lifted() -> None:
    limit = TreeLimit(64)
    Simulation(lambda _number: 1000, wanted=60, limit=limit).run(PATIENCE)
    assert limit.nodes is None


def test_a_kept_patience_is_gone_on_with() -> None:
    limit = TreeLimit(64, patience=4 * PATIENCE)
    story = Simulation(lambda _number: 80, limit=limit).run(4 * PATIENCE + 1)
    assert story.shortages == [4 * PATIENCE]
    assert limit.patience == 8 * PATIENCE


def test_what_happened_in_the_answer_before_is_not_told_again() -> None:
    story = Simulation(lambda number: 1000 if number else 64).run(1)
    assert story.limit.words.startswith("Memory ran out. ")
    assert story.limit.shortage
    story.limit.shortage.hint = "Do this."
    assert story.limit.words.endswith("Trees have at most 64 nodes. Do this.")
    story.limit.begin()
    assert story.limit.words == "", "as long as it holds nothing back"
    story.run(1)
    assert story.limit.words.startswith("Memory ran out with bigger trees before.")
