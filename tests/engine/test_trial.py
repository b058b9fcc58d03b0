"""A new pair tries itself: what it answers is kept, and only where that takes little time."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine import trial
from engine.engine import load
from engine.errors import Cancellation, Cancelled
from engine.loading.loaded_pair import LoadedPair, load_pair
from engine.loading.pair import open_pair
from engine.loading.rates import recall_answer, sees
from engine.protocol.messages import Loaded, Loading
from engine.protocol.options import LoadOptions
from engine.speculation.rounds import Speculation

STAGE = "Measuring this pair"


def begun() -> Cancellation:
    cancellation = Cancellation()
    cancellation.begin(1)
    return cancellation


def loaded_pair(options: LoadOptions, cancellation: Cancellation) -> LoadedPair:
    steps = load_pair(1, open_pair(options), cancellation)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: LoadedPair = end.value
            return found


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadOptions:
    """Of the embedded pair, which is smaller than what is tried."""
    monkeypatch.setattr(trial, "SMALLEST", 1)
    monkeypatch.setattr(trial, "SECONDS", 60.0)
    return LoadOptions(weights="float32", context_tokens=512, cache_dir=str(tmp_path))


def test_a_new_pair_tries_itself_once(options: LoadOptions) -> None:
    for is_first in (True, False):
        events = list(load(1, open_pair(options), begun()))
        stages = [event.stage for event in events if isinstance(event, Loading)]
        assert (STAGE in stages) == is_first
        assert any(isinstance(event, Loaded) for event in events)


def test_what_it_answered_is_known_to_the_plan(options: LoadOptions) -> None:
    loaded = loaded_pair(options, begun())
    list(trial.trial_answers(1, loaded, begun()))
    known = recall_answer(loaded.pair.identity, 0)
    loaded.weights.close()
    assert known
    assert known.trees
    assert len(known.recent) > 1
    assert sees(known, loaded.place)
    assert not sees(known, replace(loaded.place, tiers=["ssd"] * len(loaded.weights.tiers)))
    assert not sees(known, replace(loaded.place, kv_form="8 bits"))


def test_slow_pairs_and_those_without_a_draft_are_not_tried(
    options: LoadOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = loaded_pair(options, begun())
    assert trial.is_due(loaded)
    assert not trial.is_due(replace(loaded, draft=None))
    assert not trial.is_due(replace(loaded, context_tokens=trial.LEAST_CONTEXT - 1))
    monkeypatch.setattr(trial, "SECONDS", 1e-9)
    assert not trial.is_due(loaded)
    loaded.weights.close()


def test_a_trial_can_be_cancelled(options: LoadOptions) -> None:
    cancellation = begun()
    loaded = loaded_pair(options, cancellation)
    steps = trial.trial_answers(1, loaded, cancellation)
    next(steps)
    cancellation.cancel(1)
    with pytest.raises(Cancelled):
        list(steps)
    loaded.weights.close()


def test_an_answer_that_fails_in_any_way_leaves_the_pair_loaded(
    options: LoadOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_args: object) -> None:
        raise IndexError("a table is too short")

    monkeypatch.setattr(Speculation, "grow", fail)
    events = list(load(1, open_pair(options), begun()))
    assert any(isinstance(event, Loaded) for event in events)
    assert "a table is too short" in capsys.readouterr().err, "told in the log"
