"""Trees shrink when memory runs out and grow again when it is back; what is short for good is tried ever less often."""

from collections.abc import Callable
from typing import Any, cast

from engine.errors import OutOfMemory
from engine.speculation.interfaces import Choice, RoundResult
from engine.speculation.tuning.tree_limit import MOST_PATIENCE, PATIENCE, TreeLimit


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
    assert story.limit.words == ""


def test_trees_grow_in_steps() -> None:
    story = Simulation(lambda number: 1000 if number else 64).run(1 + 4 * PATIENCE)
    steps = [size for number, size in enumerate(story.sizes) if number == 0 or size != story.sizes[number - 1]]
    assert steps == [64, 96, 128]


def test_a_shortage_for_good_is_tried_again_ever_more_rarely() -> None:
    story = Simulation(lambda _number: 80).run(40_000)
    assert max(story.sizes) <= 80
    waits = [later - before for before, later in zip(story.shortages, story.shortages[1:], strict=False)]
    assert waits == sorted(waits), "longer each time"
    assert waits[-1] >= MOST_PATIENCE
    assert len(story.shortages) < 20, "of 40,000 rounds"
    assert sum(story.sizes) / len(story.sizes) > 48


def test_from_plain_decoding_too_there_is_a_way_back() -> None:
    story = Simulation(lambda number: 0 if number < 3 else 1000).run(3000)
    assert story.sizes[0] == 0
    assert story.sizes[-1] == 128
    assert story.limit.nodes is None


def test_a_bigger_tree_than_ever_before_is_another_matter() -> None:
    limit = TreeLimit()
    for _ in range(3):
        Simulation(lambda number: 1000 if number else 8, wanted=16, limit=limit).run(1 + 8 * limit.patience)
    assert limit.patience == 4 * PATIENCE
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
    story.limit.begin()
    assert story.limit.words.startswith("Memory ran out with bigger trees before.")
