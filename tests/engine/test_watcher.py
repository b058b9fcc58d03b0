"""The watcher tells what is asked for, about the round that is asked about, and nothing else."""

import time
from array import array
from dataclasses import dataclass, replace
from typing import cast

import pytest
import torch

from engine.observing.watcher import DRAFTS_APART, Watcher
from engine.protocol.messages import Event, Reading
from engine.protocol.watching import Drafted, Inspect, Passing, Watch
from engine.speculation import target_log_probs
from engine.speculation.trees.tree import Path, Tree


@dataclass(frozen=True)
class Read:
    """Of a prompt of which this part was read before a pass over 40 layers."""

    begin: float
    tokens = 90
    cached = 10

    def __call__(self, layer: int) -> float:
        return self.begin + layer / 40


TREE = Tree((5, 6, 7), (-1, 0, 0), (0.0, -0.5, -1.0))
PATH = Path((0, 1), bonus=3)
LOGITS = torch.arange(30.0).reshape(3, 10)


@pytest.fixture
def posted() -> list[Event]:
    return []


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be changed."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def watcher(posted: list[Event], now: list[float]) -> Watcher:
    return Watcher(posted.append).begin(9, lambda token: f"<{token}>")


def test_nothing_is_told_unasked(watcher: Watcher, posted: list[Event]) -> None:
    watcher.drafted(TREE)
    watcher.verified(TREE, LOGITS, PATH)
    assert posted == []
    assert watcher.take_target_log_probs() is None
    assert watcher.answer(Inspect(9, 0, 1)) is None


def test_drafts_are_told_with_their_round_and_not_too_often(
    watcher: Watcher, posted: list[Event], now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.observing.watcher.SLOW_ROUND", 0.0)
    watcher.watch(Watch(drafts=True))
    for _ in range(3):
        watcher.drafted(TREE)
        watcher.verified(TREE, LOGITS, PATH)
        now[0] += DRAFTS_APART * 0.6
    assert [(each.id, each.index) for each in posted if isinstance(each, Drafted)] == [(9, 0), (9, 2)]
    first = posted[0]
    assert isinstance(first, Drafted)
    assert first.tree.pieces == ("<5>", "<6>", "<7>")


def test_a_tree_that_grew_too_soon_is_told_of_at_one_of_the_next_layers(
    watcher: Watcher, posted: list[Event], now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.observing.watcher.SLOW_ROUND", 0.0)
    watcher.watch(Watch(drafts=True))
    watcher.grown(lambda: Tree((5, 6), (-1, 0), (0.0, -0.5)))
    watcher.drafted(TREE)
    watcher.come_to(0, waits=True)
    assert sizes(posted) == [(2, 0)]
    now[0] += 2 * DRAFTS_APART
    watcher.come_to(1, waits=True)
    watcher.come_to(1, waits=False)
    assert sizes(posted) == [(2, 0), (3, 3)]
    now[0] += 2 * DRAFTS_APART
    watcher.grown(lambda: Tree((5, 8, 9), (-1, 0, 1), (0.0, -0.5, -1.0)))
    assert sizes(posted) == [(2, 0), (3, 3), (5, 3)]
    watcher.grown(lambda: pytest.fail("nobody asked for this tree before it was gone"))
    watcher.verified(TREE, LOGITS, PATH)
    now[0] += 2 * DRAFTS_APART
    watcher.come_to(2, waits=True)
    watcher.end()


def test_trees_of_fast_rounds_are_not_told_of(watcher: Watcher, posted: list[Event], now: list[float]) -> None:
    watcher.watch(Watch(drafts=True))
    for seconds in (0.2, 0.2, 0.4, 0.2, 0.2):
        watcher.grown(lambda: TREE)
        watcher.drafted(TREE)
        now[0] += seconds
        watcher.come_to(3, waits=True)
        watcher.verified(TREE, LOGITS, PATH)
    told = [(each.index, each.checking) for each in posted if isinstance(each, Drafted)]
    assert told == [(2, 3), (3, 3)]


def sizes(posted: list[Event]) -> list[tuple[int, int]]:
    return [(len(each.tree.pieces), each.checking) for each in posted if isinstance(each, Drafted)]


def test_nobody_pays_for_a_tree_that_nobody_sees_grow(watcher: Watcher) -> None:
    watcher.watch(Watch(verdicts=True, layers=True))
    watcher.grown(lambda: pytest.fail("a tree was made"))
    watcher.drafted(TREE)
    watcher.come_to(0, waits=True)


class Bringing:
    """A stream with two layers on their way."""

    arriving = (3, 5)


def test_layers_are_told_of_only_where_passes_are_slow_and_not_too_often(posted: list[Event], now: list[float]) -> None:
    watcher = Watcher(posted.append).begin(9, str, Bringing())
    watcher.watch(Watch(layers=True))

    def run_a_pass(seconds: float, layers: int = 40) -> int:
        before = len(posted)
        watcher.drafted(TREE)
        for layer in range(layers):
            watcher.come_to(layer, waits=True)
            watcher.come_to(layer, waits=False)
            now[0] += seconds / layers
        watcher.verified(TREE, LOGITS, PATH)
        return len(posted) - before

    assert run_a_pass(0.2) == 0
    assert run_a_pass(2.0) > 0, "a pass that has become slow"
    assert posted[0] == Passing(9, posted[0].layer, posted[0].waits, (3, 5))  # type: ignore[union-attr]
    at = len(posted)
    assert run_a_pass(0.2) > 0, "the one before was slow"
    assert run_a_pass(0.2) == 0
    assert len(posted) - at <= 20
    run_a_pass(0.4)
    for _ in range(10):
        assert 8 <= run_a_pass(1.0) <= 20


def test_layers_of_a_draft_that_shares_them_are_not_told_of(posted: list[Event], now: list[float]) -> None:
    watcher = Watcher(posted.append).begin(9, str)
    watcher.watch(Watch(layers=True))
    watcher.drafted(TREE)
    watcher.come_to(0, waits=True)
    now[0] += 5
    watcher.verified(TREE, LOGITS, PATH)
    watcher.come_to(0, waits=True)
    assert posted == []


def test_verdicts_are_taken_once(watcher: Watcher) -> None:
    watcher.watch(Watch(verdicts=True))
    watcher.verified(TREE, LOGITS, PATH)
    taken = watcher.take_target_log_probs()
    assert taken is not None
    assert array("i", taken.ranks).tolist() == [0, 4, 3, 7]
    assert len(taken.log_probs) == 4 * 4
    assert watcher.take_target_log_probs() is None


def test_alternatives_are_those_of_the_rounds_that_are_remembered(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.observing.watcher.MOST_JUDGED", 2 * len(TREE.tokens))
    watcher.watch(Watch(verdicts=True))
    watcher.verified(TREE, LOGITS, PATH)
    inspected = watcher.answer(Inspect(9, 0, 1))
    assert inspected is not None
    assert inspected.tokens == (9, 8, 7, 6, 5, 4, 3, 2)
    assert inspected.pieces[0] == "<9>"
    assert inspected.log_probs[0] == pytest.approx(float(LOGITS[1].log_softmax(-1)[9]))
    assert watcher.answer(Inspect(9, 0, 3)) is None
    assert watcher.answer(Inspect(8, 0, 1)) is None
    watcher.verified(TREE, LOGITS.flip(1), PATH)
    again, other = watcher.answer(Inspect(9, 0, 1)), watcher.answer(Inspect(9, 1, 1))
    assert again == inspected
    assert other is not None
    assert other.tokens == (0, 1, 2, 3, 4, 5, 6, 7)
    watcher.begin(10, str)
    watcher.verified(TREE, LOGITS, PATH)
    assert watcher.answer(Inspect(9, 0, 1)) is None, "there is room for two"
    assert watcher.answer(Inspect(9, 1, 1)) == other
    assert watcher.answer(Inspect(10, 0, 1)) is not None
    watcher.watch(Watch())
    assert watcher.answer(Inspect(10, 0, 1)) is None


def test_a_watch_that_ends_while_a_round_is_kept_leaves_no_count_behind(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.observing.watcher.MOST_JUDGED", 2 * len(TREE.tokens))
    others = [lambda: watcher.watch(Watch()), lambda: watcher.watch(Watch(verdicts=True))]
    is_second = iter((False, True, False, False))

    class Interrupted(list[torch.Tensor]):
        """What another thread does while this is counted."""

        def __len__(self) -> int:
            while others:
                others.pop(0)()
            return super().__len__()

    judge = target_log_probs.judge

    def interrupted(tree: Tree, logits: torch.Tensor, path: Path) -> target_log_probs.NodeLogProbs:
        judgement = judge(tree, logits, path)
        rows = Interrupted(judgement.best_tokens) if next(is_second) else judgement.best_tokens
        return replace(judgement, best_tokens=cast(torch.Tensor, rows))

    monkeypatch.setattr(target_log_probs, "judge", interrupted)
    watcher.watch(Watch(verdicts=True))
    for _ in range(4):
        watcher.verified(TREE, LOGITS, PATH)
    found = [watcher.answer(Inspect(9, index, 1)) is not None for index in range(4)]
    assert found == [False, False, True, True], "there is room for two"


def test_how_much_of_a_long_prompt_was_read_is_told_unasked_and_twice_a_second(
    watcher: Watcher, posted: list[Event], now: list[float]
) -> None:
    def read(seconds: float) -> list[Event]:
        del posted[:]
        with watcher.reading(Read(0.0)):
            for layer in range(40):
                watcher.come_to(layer, waits=True)
                watcher.come_to(layer, waits=False)
                now[0] += seconds / 40
        return posted

    assert read(0.9) == []
    told = read(10.0)
    assert all(isinstance(each, Reading) for each in told)
    assert 15 <= len(told) <= 20
    assert told[0] == Reading(9, 0.1, 1.0, 0, 0, 90, 10)
    assert told == sorted(told, key=lambda each: each.part)  # type: ignore[union-attr]
    watcher.drafted(TREE)
    now[0] += 5
    watcher.come_to(3, waits=True)
    assert len(posted) == len(told), "a tree is no prompt"


def test_pictures_that_are_looked_at_are_told_and_their_time_is_no_reading(
    watcher: Watcher, posted: list[Event], now: list[float]
) -> None:
    with watcher.reading(Read(0.5), lambda: min(now[0] - 100.0, 6.0)):
        for layer in range(12):
            watcher.look(1 + layer // 6, 2)
            now[0] += 0.5
        assert posted == [Reading(9, 0.5, 0.0, 1, 2, 90, 10)] * 4 + [Reading(9, 0.5, 0.0, 2, 2, 90, 10)] * 6
        now[0] += 0.5
        watcher.come_to(10, waits=False)
        assert posted[-1] == Reading(9, 0.75, 0.5, 0, 0, 90, 10)
    now[0] += 5
    watcher.look(1, 1)
    assert len(posted) == 11, "the prompt has been read"
