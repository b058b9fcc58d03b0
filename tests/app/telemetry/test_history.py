"""What is kept of the rounds: bounded, in order, and with parts that add up."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.telemetry.figures.history import CAPACITY, PARTS, ROW, History, split
from engine.protocol.messages import Seconds
from tests.app.telemetry.rounds import made_up_round, round_of

SPANS = st.floats(0, 10)


@given(st.integers(1, 9), st.integers(0, 40))
def test_the_newest_rounds_are_kept_and_numbered(capacity: int, rounds: int) -> None:
    history = History(capacity)
    for index in range(rounds):
        history.add(round_of(index))
    kept = min(capacity, rounds)
    assert history.rows["index"].tolist() == list(range(rounds - kept, rounds))
    assert (history.count, history.first) == (rounds, rounds - kept)


def test_memory_is_bounded() -> None:
    assert 2 * CAPACITY * ROW.itemsize < 4 << 20


@given(SPANS, SPANS, SPANS, SPANS, SPANS)
def test_parts_add_up_whatever_the_clocks_say(
    draft: float, target: float, decode: float, hide: float, wait: float
) -> None:
    parts = split(Seconds(draft=draft, target=target, decode=decode, hidden_draft=hide, stream_wait=wait))
    assert len(parts) == len(PARTS)
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(decode)


def test_parts_are_what_they_are_called() -> None:
    parts = split(Seconds(draft=1, target=10, other=0.5, decode=11.5, hidden_draft=2, stream_wait=3))
    assert dict(zip(PARTS, parts, strict=True)) == {
        "draft": 1, "hidden_draft": 2, "stream_wait": 3, "compute": 5, "other": 0.5,
    }  # fmt: skip


def test_time_goes_on_from_round_to_round_and_while_a_question_is_read() -> None:
    history = History()
    history.wait(2.0)
    history.add(round_of(0))
    history.wait(1.0)
    history.add(round_of(0, request=3))
    assert history.rows["begin"] == pytest.approx([2.0, 3.009])
    assert history.rows["request"].tolist() == [2, 3]
    assert history.seconds == pytest.approx(3.018)


def test_figures_of_a_round() -> None:
    history = History()
    history.add(round_of(0, (-1, 0, 0, 1), (0, -1, -1, -2), (0, 1, 3), bytes_streamed=77))
    row = history.rows[0]
    assert (row["nodes"], row["depth"], row["accepted"], row["tokens"], row["bytes"]) == (3, 2, 2, 3, 77)


def test_a_damaged_round_changes_nothing() -> None:
    history = History()
    history.add(round_of(0))
    damaged = round_of(1)
    with pytest.raises(ValueError, match="tree"):
        history.add(replace(damaged, tree=replace(damaged.tree, parents=b"")))
    assert history.count == len(history.rows) == 1


def test_clearing_forgets_everything() -> None:
    history = History()
    random = Random(3)
    for index in range(5):
        history.add(made_up_round(index, random))
    history.clear()
    assert (history.count, len(history.rows), history.seconds, history.acceptance.deepest) == (0, 0, 0.0, 0)
