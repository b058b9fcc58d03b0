"""Trees are seen growing, pass by pass of the draft, and the target's layers passing by; the text stays the same."""

import time
from array import array
from collections.abc import Iterator
from dataclasses import replace

import pytest
from torch import Tensor

from engine.engine import Engine, load
from engine.errors import Cancellation
from engine.loading.learned import Learned
from engine.loading.pair import open_pair
from engine.observing import watcher
from engine.observing.watcher import Watcher
from engine.protocol.messages import ChatMessage, Event, Finished, Loaded, Round
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.protocol.watching import Drafted, Passing, Tree, Watch
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout
from tests.campaigns.extent import choose

STORY = (ChatMessage("user", "Tell me a story about a dragon."),)
EVERYTHING = Watch(verdicts=True, drafts=True, layers=True)
METHODS = ("specexec", "sequoia", "specinfer", "chain", "auto")  # how auto tunes its budget depends on the clock


@pytest.fixture(scope="module")
def streamed() -> Iterator[tuple[Engine, Cancellation, Loaded]]:
    """The embedded pair, with the target's layers on the SSD."""
    cancellation = Cancellation()
    cancellation.begin(1)
    steps = load(1, open_pair(LoadOptions(place="ssd", device="cpu")), cancellation)
    events: list[Event] = []
    while True:
        try:
            events.append(next(steps))
        except StopIteration as end:
            engine: Engine = end.value
            break
    yield engine, cancellation, next(event for event in events if isinstance(event, Loaded))
    engine.close()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is told of, however soon it comes and however fast it is."""
    monkeypatch.setattr(watcher, "DRAFTS_APART", 0.0)
    monkeypatch.setattr(watcher, "SLOW_ROUND", 0.0)
    monkeypatch.setattr(watcher, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(watcher, "EVENTS_APART", 0.0)


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every layer is awaited, however fast this machine reads: by the seconds that are the only item."""
    read, seconds = DiskReader.read, [0.005]

    def late(reader: DiskReader, layout: LayerLayout, buffer: Tensor) -> None:
        time.sleep(seconds[0])
        read(reader, layout, buffer)

    monkeypatch.setattr(DiskReader, "read", late)
    return seconds


def written(
    streamed: tuple[Engine, Cancellation, Loaded],
    method: str,
    watch: Watch,
    temperature: float = 0.0,
    lookup: bool = True,
) -> tuple[list[Event], str]:
    """All events of an answer, in their order, and its text."""
    engine, cancellation, _ = streamed
    cancellation.begin(1)
    engine._loaded = replace(
        engine._loaded, learned=Learned()
    )  # what an answer teaches would make the next one's trees others
    events: list[Event] = []
    onlooker = Watcher(events.append)
    onlooker.watch(watch)
    options = GenerateOptions(
        SamplingOptions(temperature=temperature, seed=3),
        SpeculationOptions(method=method, budget=0 if method == "auto" else 24, lookup=lookup),
        max_new_tokens=choose(16, 40),
    )
    for event in engine.generate(1, engine.prompt(STORY), options, onlooker):
        events.append(event)
    return events, "".join(event.text for event in events if isinstance(event, Round | Finished))


def paths(tree: Tree) -> list[tuple[int, ...]]:
    tokens, parents = array("i", tree.tokens), array("i", tree.parents)
    found: list[tuple[int, ...]] = []
    for token, parent in zip(tokens, parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("method", "temperature"),
    choose(
        [("specexec", 0.9), ("auto", 0.0)],
        [(method, heat) for method in METHODS for heat in (0.0, 0.9) if method != "auto" or not heat],
    ),
)
def test_the_text_is_the_same_whether_somebody_looks_or_not(
    streamed: tuple[Engine, Cancellation, Loaded], method: str, temperature: float
) -> None:
    _, alone = written(streamed, method, Watch(), temperature)
    events, watched = written(streamed, method, EVERYTHING, temperature)
    assert watched == alone
    assert any(isinstance(event, Drafted) for event in events)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("method", choose(["specexec", "sequoia"], ["specexec", "sequoia", "specinfer", "chain"]))
def test_a_tree_grows_batch_by_batch_into_the_one_that_is_verified(
    streamed: tuple[Engine, Cancellation, Loaded], method: str
) -> None:
    events, _ = written(streamed, method, EVERYTHING, lookup=False)  # which adds to a tree once it has grown
    rounds = {event.index: event for event in events if isinstance(event, Round)}
    seen_growing = 0
    for index, verified in rounds.items():
        drafts = [event for event in events if isinstance(event, Drafted) and event.index == index]
        growing = [draft for draft in drafts if not draft.checking]
        checked = [draft for draft in drafts if draft.checking]
        final = paths(verified.tree)
        if len(final) == 1:
            continue
        assert drafts == [*growing, *checked], "growth comes before the target's pass"
        assert all(paths(draft.tree)[: draft.checking] == final for draft in checked)
        assert checked
        assert checked[0].checking == len(final) == len(checked[0].tree.pieces)
        if growing:
            assert set(paths(growing[-1].tree)) == set(final)
        deepest = [max(map(len, paths(draft.tree))) for draft in growing]
        assert deepest == sorted(deepest)
        seen_growing += len(set(deepest)) > 1
    assert seen_growing > 0


@pytest.mark.usefixtures("eager")
def test_what_is_guessed_while_layers_are_awaited_hangs_behind_what_is_checked(
    streamed: tuple[Engine, Cancellation, Loaded], slow_disk: list[float]
) -> None:
    further: list[Drafted] = []
    for _ in range(5):  # on a busy machine a layer may be there each time that the draft could have worked
        events, _ = written(streamed, "specexec", EVERYTHING)
        drafted = (event for event in events if isinstance(event, Drafted))
        further = further or [event for event in drafted if 0 < event.checking < len(event.tree.pieces)]
        if further:
            break
        slow_disk[0] *= 2
    assert further, "the draft never worked while a layer was awaited"
    for event in further:
        assert len(set(paths(event.tree))) == len(event.tree.pieces)


@pytest.mark.usefixtures("eager", "slow_disk")
def test_layers_pass_by_in_their_order_and_tell_what_arrives(streamed: tuple[Engine, Cancellation, Loaded]) -> None:
    events, _ = written(streamed, "none", EVERYTHING)
    layers = len(streamed[2].tiers)
    passed = [event for event in events if isinstance(event, Passing)]
    assert [event.layer for event in passed[: 2 * layers]] == [layer for layer in range(layers) for _ in range(2)]
    assert [event.waits for event in passed[: 2 * layers]] == [True, False] * layers
    assert all(0 <= layer < layers for event in passed for layer in event.arriving)
    assert any(event.arriving for event in passed)
    assert len(passed) % (2 * layers) == 0, "a draft's pass was told of"


def test_nothing_is_told_unasked_and_nothing_stays_attached(streamed: tuple[Engine, Cancellation, Loaded]) -> None:
    hooks = [len(layer._forward_pre_hooks) for layer in streamed[0].target.network.layers]
    events, _ = written(streamed, "specexec", Watch())
    assert not any(isinstance(event, Drafted | Passing) for event in events)
    assert [len(layer._forward_pre_hooks) for layer in streamed[0].target.network.layers] == hooks
