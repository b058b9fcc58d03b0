"""A real engine whose memory runs out: what is freed, what is told, what the next one begins with."""

import itertools
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.engine import Engine, load
from engine.errors import Cancellation
from engine.loading import loaded_pair
from engine.loading.loading import load_draft, load_planned
from engine.loading.pair import Pair, open_pair
from engine.protocol.messages import ChatMessage, Event, Finished, Loaded, Round, Statistics
from engine.protocol.options import GenerateOptions, LoadOptions, SpeculationOptions
from engine.speculation import rounds
from engine.speculation.tuning import tree_limit
from engine.speculation.tuning.throughput_model import BUDGETS
from engine.text.prompt import Prompt
from tests.campaigns.extent import choose

LENGTH = choose(44, 60)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return open_pair(LoadOptions(weights="float32", cache_dir=str(tmp_path)))


def engine_of(pair: Pair, events: list[Event]) -> Engine:
    cancellation = Cancellation()
    cancellation.begin(1)
    steps = load(1, pair, cancellation)
    while True:
        try:
            events.append(next(steps))
        except StopIteration as end:
            engine: Engine = end.value
            return engine


def test_what_a_failed_attempt_had_loaded_is_gone_before_the_next(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> None:
    """The embedded target, resident at first; the cache of its draft finds no memory."""
    loaded: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def planned(*arguments: Any) -> Any:
        alive.append(sum(reference() is not None for reference in loaded))
        result = yield from load_planned(*arguments)
        loaded.append(weakref.ref(result.network.model))
        return result

    def ready(*arguments: Any) -> Any:
        draft = yield from load_draft(*arguments)
        if len(loaded) == 1:
            torch.empty(1 << 60, dtype=torch.uint8)
        return draft

    monkeypatch.setattr(loaded_pair, "load_planned", planned)
    monkeypatch.setattr(loaded_pair, "load_draft", ready)
    events: list[Event] = []
    # In the checkpoint's own type; in float32, layers kept as they are stored would be less already.
    engine = engine_of(replace(pair, options=replace(pair.options, weights="bfloat16")), events)
    described = next(event for event in events if isinstance(event, Loaded))
    assert alive == [0, 0]
    assert described.tiers.count("device") < described.target.layers
    assert described.tiers.count("ssd") > 0
    engine.close()


def test_an_answer_says_that_its_trees_shrank_and_the_next_engine_begins_with_small_ones(
    monkeypatch: pytest.MonkeyPatch, pair: Pair
) -> None:
    """The target finds no memory for more than 20 tokens of a tree."""
    monkeypatch.setattr(tree_limit, "PATIENCE", 64)  # no larger trees are tried before the answers end
    engine = engine_of(pair, [])
    prompt = engine.prompt((ChatMessage("user", "Tell me a story about a dragon."),))
    options = GenerateOptions(speculation=SpeculationOptions(method="specexec", budget=64), max_new_tokens=LENGTH)
    expected = told(engine, prompt, options)[0]
    hook = engine.target.network.layers[3].register_forward_pre_hook(scarce_above(20))
    text, statistics = told(engine, prompt, options)
    hook.remove()
    assert text == expected
    assert "Memory ran out during a pass of the target over 33 tokens: " in statistics.note
    assert "Trees have at most 16 nodes. Choose a smaller tree" in statistics.note
    assert statistics.drafted_nodes > 0
    assert statistics.short_passes > 0
    engine.close()

    engine = engine_of(pair, [])
    text, statistics = told(engine, prompt, options)
    engine.close()
    assert text == expected
    assert statistics.drafted_nodes <= 16 * statistics.passes
    assert statistics.note.endswith("Memory ran out with bigger trees before. Trees have at most 16 nodes.")


def test_a_moment_without_memory_leaves_the_next_answers_their_trees(
    monkeypatch: pytest.MonkeyPatch, pair: Pair
) -> None:
    """No tree fits for five passes. Rounds that had to do without one must not teach that trees give nothing."""
    # Passes as of layers that stream, by a clock of their own: else what else this machine does says if trees pay.
    calls, passes = itertools.count(), list[None]()
    monkeypatch.setattr(rounds, "time", SimpleNamespace(perf_counter=lambda: 0.001 * next(calls) + 0.05 * len(passes)))
    engine = engine_of(pair, [])
    engine.target.network.layers[2].register_forward_pre_hook(lambda *_: passes.append(None))
    prompt = engine.prompt((ChatMessage("user", "Tell me a story about a dragon."),))
    options = GenerateOptions(max_new_tokens=LENGTH)
    expected = told(engine, prompt, options)[0]
    trees = engine._loaded.learned.state(options).throughput.methods["specexec"].acceptance
    before = trees.tokens[BUDGETS.index(8), -1]
    fails, first = scarce_above(1), iter(range(5))
    hook = engine.target.network.layers[3].register_forward_pre_hook(
        lambda layer, arguments: fails(layer, arguments) if next(first, None) is not None else None
    )
    text, statistics = told(engine, prompt, options)
    hook.remove()
    assert text == expected
    assert statistics.short_passes > 0
    assert "Memory ran out during a pass of the target" in statistics.note
    assert "with less memory for its layers." in statistics.note
    answers = (told(engine, prompt, options)[1] for _ in range(12))
    whole = next(each for each in answers if not each.short_passes)
    engine.close()
    assert trees.tokens[BUDGETS.index(8), -1] > before / 2 > 1.0
    assert whole.drafted_nodes > 0
    assert "Memory" not in whole.note


def test_nothing_is_written_before_the_answer_is_told(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> None:
    """Every file waits for the disk, which may be the one that the layers stream from."""
    engine = engine_of(pair, [])
    prompt = engine.prompt((ChatMessage("user", "Tell me a story about a dragon."),))
    options = GenerateOptions(speculation=SpeculationOptions(method="specexec", budget=64), max_new_tokens=LENGTH)
    hook = engine.target.network.layers[3].register_forward_pre_hook(scarce_above(20))
    written: list[str] = []

    def recorded(path: Path, _content: bytes, _mode: int) -> None:
        written.append(path.name)

    monkeypatch.setattr("engine.loading.store.write_atomically", recorded)
    for event in engine.generate(2, prompt, options):
        if isinstance(event, Finished):
            assert written == []
    hook.remove()
    engine.close()
    assert {"memory.json", "rates.json"} <= set(written)
    assert len(written) == 3, "and what was learnt"


def scarce_above(rows: int) -> Any:
    """A hook on a layer, before which memory runs out in passes over more than so many tokens."""

    def run_out(_layer: Any, arguments: Any) -> None:
        if arguments[0].shape[1] > rows:
            torch.empty(1 << 60, dtype=torch.uint8)

    return run_out


def told(engine: Engine, prompt: Prompt, options: GenerateOptions) -> tuple[str, Statistics]:
    """An answer's text and figures."""
    events = list(engine.generate(2, prompt, options))
    assert isinstance(events[-1], Finished)
    assert events[-1].statistics
    return "".join(event.text for event in events if isinstance(event, Round | Finished)), events[-1].statistics
