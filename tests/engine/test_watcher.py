"""The watcher tells what is asked for, about the round that is asked about, and nothing else."""

import time
from array import array

import pytest
import torch

from engine.messages import Event
from engine.speculation.tree import Path, Tree
from engine.watcher import DRAFTS_APART, Watcher
from engine.watching import Drafted, Inspect, Watch

TREE = Tree((5, 6, 7), (-1, 0, 0), (0.0, -0.5, -1.0))
PATH = Path((0, 1), bonus=3)
LOGITS = torch.arange(30.0).reshape(3, 10)


@pytest.fixture
def posted() -> list[Event]:
    return []


@pytest.fixture
def watcher(posted: list[Event]) -> Watcher:
    return Watcher(posted.append).begin(9, lambda token: f"<{token}>")


def test_nothing_is_told_unasked(watcher: Watcher, posted: list[Event]) -> None:
    watcher.drafted(TREE)
    watcher.verified(TREE, LOGITS, PATH)
    assert posted == []
    assert watcher.take_verdicts() is None
    assert watcher.answer(Inspect(9, 0, 1)) is None


def test_drafts_are_told_with_their_round_and_not_too_often(
    watcher: Watcher, posted: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watcher.watch(Watch(drafts=True))
    for _ in range(3):
        watcher.drafted(TREE)
        watcher.verified(TREE, LOGITS, PATH)
        now[0] += DRAFTS_APART * 0.6
    assert [(each.id, each.index) for each in posted if isinstance(each, Drafted)] == [(9, 0), (9, 2)]
    first = posted[0]
    assert isinstance(first, Drafted)
    assert first.tree.pieces == ("<5>", "<6>", "<7>")


def test_verdicts_are_taken_once(watcher: Watcher) -> None:
    watcher.watch(Watch(verdicts=True))
    watcher.verified(TREE, LOGITS, PATH)
    verdicts = watcher.take_verdicts()
    assert verdicts is not None
    assert array("i", verdicts.ranks).tolist() == [0, 4, 3, 7]
    assert len(verdicts.log_probs) == 4 * 4
    assert watcher.take_verdicts() is None


def test_alternatives_are_those_of_the_newest_round_only(watcher: Watcher) -> None:
    watcher.watch(Watch(verdicts=True))
    watcher.verified(TREE, LOGITS, PATH)
    inspected = watcher.answer(Inspect(9, 0, 1))
    assert inspected is not None
    assert inspected.tokens == (9, 8, 7, 6, 5, 4, 3, 2)
    assert inspected.pieces[0] == "<9>"
    assert inspected.log_probs[0] == pytest.approx(float(LOGITS[1].log_softmax(-1)[9]))
    assert watcher.answer(Inspect(9, 0, 3)) is None
    assert watcher.answer(Inspect(8, 0, 1)) is None
    watcher.verified(TREE, LOGITS, PATH)
    assert watcher.answer(Inspect(9, 0, 1)) is None
    assert watcher.answer(Inspect(9, 1, 1)) is not None
    watcher.watch(Watch())
    assert watcher.answer(Inspect(9, 1, 1)) is None
