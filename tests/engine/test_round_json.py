"""Events of an answer cross a network as JSON, and nothing that is none of them is taken for one."""

import json
import math
from array import array
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.protocol.messages import Calling, Finished, Prefilled, Round, Seconds, Statistics, Tree
from engine.protocol.round_json import (
    MalformedEventError,
    calling_from_json,
    finished_from_json,
    prefilled_from_json,
    round_from_json,
    round_to_json,
)
from engine.protocol.tools import ToolCall, WrittenCall
from engine.protocol.watching import TargetLogProbs
from tests.campaigns.extent import choose

TEXTS = st.text(max_size=5)
COUNTS = st.integers(0, 1 << 40)
TOKENS = st.integers(0, (1 << 31) - 1)
LOG_PROBS = st.floats(max_value=0, allow_nan=False, width=32)
SECONDS = st.builds(Seconds, *[st.floats(0, 1e6)] * 8)
STATISTICS = st.builds(
    Statistics, prompt_tokens=COUNTS, first_token_seconds=st.floats(0, 9), seconds=SECONDS, note=TEXTS
)


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    """Trees of up to a dozen nodes, some with verdicts, likeliest tokens and text."""
    parents = [-1, *(draw(st.integers(0, node)) for node in range(draw(st.integers(0, 11))))]
    nodes, accepted = len(parents), [0]
    for _ in range(draw(st.integers(0, nodes))):
        if below := [node for node in range(1, nodes) if parents[node] == accepted[-1]]:
            accepted.append(draw(st.sampled_from(below)))

    def floats(count: int) -> bytes:
        return array("f", draw(st.lists(LOG_PROBS, min_size=count, max_size=count))).tobytes()

    def integers(count: int) -> bytes:
        return array("i", draw(st.lists(TOKENS, min_size=count, max_size=count))).tobytes()

    new, written = len(accepted), [draw(TEXTS) for _ in accepted]
    pieces = tuple(draw(TEXTS) for _ in parents)
    silent = draw(st.none() | st.lists(st.integers(0, nodes - 1), max_size=3).map(tuple))
    likeliest = st.lists(st.tuples(TEXTS, LOG_PROBS), max_size=3).map(tuple)
    return Round(
        draw(COUNTS), draw(COUNTS), Tree(integers(nodes), array("i", parents).tobytes(), floats(nodes), pieces, silent),
        tuple(accepted), draw(TOKENS), draw(TEXTS), new, "".join(written), draw(SECONDS), draw(TEXTS), draw(COUNTS),
        draw(COUNTS), TargetLogProbs(floats(nodes + 1), integers(nodes + 1)) if draw(st.booleans()) else None,
        array("I", map(len, written)).tobytes(), floats(new),
        tuple(draw(likeliest) for _ in range(new)) if draw(st.booleans()) else (),
    )  # fmt: skip


@settings(max_examples=choose(30, 2000), deadline=None)
@given(rounds())
def test_a_round_comes_back_as_it_was(of: Round) -> None:
    assert round_from_json(json.loads(json.dumps(round_to_json(of), allow_nan=False))) == of


@pytest.mark.parametrize("log_prob", [-math.inf, -3.4028234663852886e38, -1e-45, -0.0])
def test_so_does_every_float(log_prob: float) -> None:
    of = round_from_json({**GOOD, "log_probs": [0.0, log_prob if math.isfinite(log_prob) else None]})
    assert array("f", of.tree.log_probs)[1] == pytest.approx(log_prob, abs=1e-44)
    assert round_from_json(round_to_json(of)) == of


@settings(max_examples=choose(20, 500), deadline=None)
@given(st.builds(Prefilled, COUNTS, st.just(1 << 40), COUNTS, st.floats(0, 9)))
def test_so_does_the_beginning(of: Prefilled) -> None:
    assert prefilled_from_json(json.loads(json.dumps(asdict(of)))) == of


@settings(max_examples=choose(20, 500), deadline=None)
@given(st.builds(Finished, COUNTS, st.sampled_from(["stop", "length"]), TEXTS, st.none() | STATISTICS))
def test_and_the_end(of: Finished) -> None:
    assert finished_from_json(json.loads(json.dumps(asdict(of)))) == of


def test_calls_come_back_and_places_that_cannot_be_are_refused() -> None:
    calls = tuple(WrittenCall(at, at + 2, ToolCall("é", "look", '{"at": "sea"}')) for at in (0, 2))
    ending = Finished(3, "stop", "x", calls=calls)
    assert finished_from_json(json.loads(json.dumps(asdict(ending)))) == ending
    assert calling_from_json(asdict(Calling(3, -1))) == Calling(3, -1)
    told = asdict(calls[0])
    for wrong in ([told, told], [{**told, "end": 0}], [{**told, "call": None}], [{**told, "begin": -1}], 3, [3]):
        with pytest.raises(MalformedEventError):
            finished_from_json({"reason": "stop", "calls": wrong})
    for nonsense in ({}, {"begin": -2}, {"begin": True}, {"begin": 1 << 40}, {"begin": 0, "name": 3}):
        with pytest.raises(MalformedEventError):
            calling_from_json(nonsense)


GOOD: dict[str, Any] = {
    "tokens": [1, 2], "parents": [-1, 0], "log_probs": [0.0, None], "pieces": ["a", "b"], "accepted": [0, 1],
    "bonus": 3, "new_tokens": 2, "text": "bc", "lengths": [1, 1],
}  # fmt: skip


def test_what_is_missing_is_nothing() -> None:
    read = round_from_json(GOOD)
    assert read.tree.log_probs == array("f", [0.0, -math.inf]).tobytes()
    assert (read.id, read.seconds, read.verdicts, read.top) == (0, Seconds(), None, ())


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens": []},
        {"tokens": [1, 2, 3]},
        {"tokens": [1, 1 << 31]},
        {"tokens": [True, 2]},
        {"tokens": "12"},
        {"parents": [0, 0]},
        {"parents": [-1, 1]},
        {"log_probs": [0.0, "0"]},
        {"log_probs": [0.0, math.nan]},
        {"log_probs": [0.0, 1e39]},
        {"pieces": ["a", 2]},
        {"pieces": ["a", "b" * (1 << 21)]},
        {"accepted": []},
        {"accepted": [1, 0]},
        {"accepted": [0, 2]},
        {"accepted": [0, -1]},
        {"new_tokens": 1},
        {"lengths": [1, 2]},
        {"lengths": [2]},
        {"token_log_probs": [0.0]},
        {"target_log_probs": [0.0], "ranks": [0]},
        {"ranks": [1, 1, 1]},
        {"top": [[["a", 0.0]]]},
        {"top": [[["a"]], []]},
        {"top": [[["a", 0.0]] * 21, []]},
        {"top": [3, []]},
        {"bonus": -1},
        {"id": 0.5},
        {"seconds": []},
        {"seconds": {"decode": -1}},
        {"seconds": {"decode": math.inf}},
        {"index": 1 << 70},
        {"text": None},
    ],
)
def test_what_is_no_round_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(MalformedEventError):
        round_from_json({**GOOD, **wrong})


@pytest.mark.parametrize("nothing", [None, [], "x", 3])
def test_what_is_no_object_is_refused(nothing: object) -> None:
    for read in (round_from_json, prefilled_from_json, finished_from_json):
        with pytest.raises(MalformedEventError):
            read(nothing)


def test_an_end_and_a_beginning_must_be_such() -> None:
    with pytest.raises(MalformedEventError):
        finished_from_json({"reason": "weary"})
    with pytest.raises(MalformedEventError):
        finished_from_json({"reason": "stop", "statistics": {"seconds": 3}})
    with pytest.raises(MalformedEventError):
        prefilled_from_json({"prompt_tokens": 3, "cached_tokens": 4})
