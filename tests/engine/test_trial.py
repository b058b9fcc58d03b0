"""A new pair tries itself: what it answers is kept, and only where that takes little time; a rehearsal is not kept."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from engine import trial
from engine.answering import Answering
from engine.engine import Engine, load
from engine.errors import Cancellation, Cancelled
from engine.loading.loaded_pair import LoadedPair, load_pair
from engine.loading.measurements import tree_record
from engine.loading.pair import open_pair
from engine.loading.rates import recall_answer, sees
from engine.protocol.messages import ChatMessage, Event, Loaded, Loading, Prefilled
from engine.protocol.options import GenerateOptions, LoadOptions
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
    """Of the embedded pair, which is smaller than what is tried; with time for it on a busy machine, too."""
    monkeypatch.setattr(trial, "SMALLEST", 1)
    monkeypatch.setattr(trial, "SECONDS", 60.0)
    monkeypatch.setattr(tree_record, "SECONDS", 60.0)
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


def texts_of(events: Iterable[Event]) -> list[str]:
    return [getattr(event, "text", "") for event in events]


def kept_in(folder: Path) -> dict[Path, bytes]:
    """What is remembered there, compiled code left out."""
    return {path: path.read_bytes() for path in folder.rglob("*.json")}


def answered(engine: Engine) -> list[Event]:
    prompt = engine.prompt((ChatMessage("user", "Why is the sky blue?"),))
    return list(engine.generate(1, prompt, GenerateOptions(max_new_tokens=16)))


def test_a_rehearsal_computes_and_leaves_nothing_behind(options: LoadOptions, tmp_path: Path) -> None:
    rehearsed, fresh = (Engine(loaded_pair(replace(options, cache_dir=str(tmp_path / each)), begun())) for each in "ab")
    parts, before = rehearsed._loaded, kept_in(tmp_path / "a")
    passes = 0

    def count() -> None:
        nonlocal passes
        passes += 1
        assert parts.target.length, "it reads, and writes"

    rehearsed.rehearse(count)
    assert passes > 1
    assert parts.draft
    assert (parts.target.length, parts.draft.length) == (0, 0)
    assert parts.learned._states == {}
    assert kept_in(tmp_path / "a") == before
    first, other = answered(rehearsed), answered(fresh)
    assert texts_of(first) == texts_of(other)
    assert next(event for event in first if isinstance(event, Prefilled)).cached_tokens == 0
    rehearsed.close()
    fresh.close()


def test_whoever_asks_ends_a_rehearsal_within_a_layer(options: LoadOptions) -> None:
    cancellation = begun()
    engine, looks = Engine(loaded_pair(options, cancellation)), 0

    def is_unwanted() -> bool:
        nonlocal looks
        looks += 1
        return looks > 1

    cancellation.begin(0, is_unwanted)
    engine.rehearse(lambda: None)
    assert looks == 2, "the layer after somebody asked was not computed"
    assert engine._loaded.target.length == 0
    cancellation.begin(1)
    assert len(answered(engine)) > 2
    engine.close()


def test_slow_pairs_are_not_rehearsed(options: LoadOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(loaded_pair(options, begun()))
    monkeypatch.setattr(trial, "SECONDS", 1e-9)
    monkeypatch.setattr(Answering, "events", None)
    engine.rehearse(lambda: None)
    engine.close()
