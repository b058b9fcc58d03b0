"""A client that leaves: the engine is free for the next one within a layer, also where layers are brought from SSD."""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from engine.errors import Cancellation
from engine.loading.measurements import tree_record
from engine.observing.watcher import Watcher
from engine.protocol.messages import ChatMessage, Event, Finished, Generate, Load, Prefilled, Round
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.serving.desk import Desk, Job
from engine.serving.worker import Worker
from tests.engine.test_estimate import with_tokenizer

PROMPT = tuple(range(20, 60))
LAYERS = 4


class Serving:
    """A worker and what it loaded; `leaves` is told to leave as the target's layer of that number begins its pass."""

    def __init__(self, folder: Path, cache: Path) -> None:
        read: Future[None] = Future()
        read.set_result(None)
        self.desk = Desk()
        self.worker = Worker(self.desk, Cancellation(), Watcher(lambda _event: None), read)
        options = LoadOptions(str(folder), "none", place="ssd", cache_dir=str(cache))
        assert isinstance(self.answer(Load(0, options))[-1], Finished)
        assert self.desk.engine
        self.leaves: Job | None = None
        self.leaves_at = 0
        self.begun: list[int] = []
        for number, layer in enumerate(self.desk.engine.target.network.layers):
            layer.register_forward_pre_hook(lambda *_, number=number: self._begin(number))

    def answer(self, request: Load | Generate) -> list[Event]:
        events: list[Event] = []
        job = Job(request, "a client", events.append)
        self.leaves = job if isinstance(request, Generate) else None
        self.worker.work(job)
        return events

    def _begin(self, layer: int) -> None:
        self.begun.append(layer)
        if self.leaves and len(self.begun) == self.leaves_at:
            self.leaves.leave()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A tiny target, every layer on SSD."""
    folder = with_tokenizer(tmp_path_factory.mktemp("model"), "llama")
    made = Serving(folder, tmp_path_factory.mktemp("cache"))
    yield made
    assert made.desk.engine
    made.desk.engine.close()


@pytest.mark.parametrize(
    ("leaves_at", "told"),
    [(2, []), (LAYERS + 3, [Prefilled]), (2 * LAYERS + 1, [Prefilled, Round])],
    ids=["prompt", "first round", "second round"],
)
def test_no_further_layer_begins_once_a_client_has_left(serving: Serving, leaves_at: int, told: list[type]) -> None:
    assert serving.desk.engine
    assert serving.desk.engine.describe(0, 0.0).tiers == ("ssd",) * LAYERS
    serving.begun.clear()
    serving.leaves_at = leaves_at
    prompt = tuple(token + leaves_at for token in PROMPT)  # none that the context knows
    events = serving.answer(Generate(leaves_at, (), GenerateOptions(max_new_tokens=8, ignore_eos=True), raw=prompt))
    assert [type(event) for event in events[:-1]] == told
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "cancelled"
    assert len(serving.begun) == leaves_at, "the layer that had begun was the last"
    serving.leaves_at = 0
    events = serving.answer(Generate(99, (), GenerateOptions(max_new_tokens=3, ignore_eos=True), raw=prompt))
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "length", "the next one is answered"


def test_an_answer_teaches_also_where_its_client_leaves_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_record, "SECONDS", 60.0)  # a busy machine may not grow a tree in half of one
    read: Future[None] = Future()
    read.set_result(None)
    desk = Desk()
    worker = Worker(desk, Cancellation(), Watcher(lambda _event: None), read)
    worker.work(Job(Load(0, LoadOptions(cache_dir=str(tmp_path))), "a client", lambda _event: None))
    engine = desk.engine
    assert engine
    options, events = GenerateOptions(max_new_tokens=64, ignore_eos=True), list[Event]()

    def hear(event: Event) -> None:
        events.append(event)
        if isinstance(event, Finished):
            job.leave()

    job = Job(Generate(1, (ChatMessage("user", "Tell me a story."),), options), "a client", hear)
    learned = engine._loaded.learned.state(options).record
    before = learned.trees
    worker.work(job)
    engine.close()
    assert sum(isinstance(event, Finished) for event in events) == 1
    assert learned.trees > before
