"""Tells what the application watches of the rounds, while they happen; costs nothing where it watches nothing."""

import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.model.passes.layer_hooks import KnownHook
from engine.protocol.messages import Event, Reading
from engine.protocol.messages import Tree as TreeMessage
from engine.protocol.watching import Drafted, Inspect, Inspected, Passing, TargetLogProbs, Watch
from engine.speculation.trees.tree import Tree, enlarge

if TYPE_CHECKING:
    from torch import Tensor, nn

    from engine.speculation.target_log_probs import NodeLogProbs
    from engine.speculation.trees.tree import Path


SLOW_SECONDS = 0.3  # a pass that takes less is over before one could follow it
EVENTS_APART = 1 / 16  # seconds, in the long run
BURST = 4  # events that may come at once; with `EVENTS_APART` never more than 20 a second
READ_APART = 0.5  # seconds: as often it is told how much of a prompt was read, once that has taken a second
LONG_READING = 1.0
DRAFTS_APART = 0.05  # seconds: nobody can follow more than 20 trees a second
MOST_JUDGED = 1 << 18  # nodes of past rounds that can be asked about, of 64 bytes each
SLOW_ROUND = 0.25  # seconds; a tree of a round that takes less is verified before one could see it grow

Passed = Callable[[int, bool], None]
"""(layer, waits): a pass has come to this layer; its weights may have to be waited for, or are there."""


def pack_tree(tree: Tree, piece: Callable[[int], str], is_silent: Callable[[int], bool] | None = None) -> TreeMessage:
    """The tree as it travels: arrays as bytes, the tokens' texts, by `piece`, and which of them write nothing."""
    return TreeMessage(
        tokens=array("i", tree.tokens).tobytes(),
        parents=array("i", tree.parents).tobytes(),
        log_probs=array("f", tree.log_probs).tobytes(),
        pieces=tuple(piece(token) for token in tree.tokens),
        silent=tuple(node for node, token in enumerate(tree.tokens) if is_silent(token)) if is_silent else None,
    )


class ArrivingLayers(Protocol):
    """Brings weights to where they are used."""

    @property
    def arriving(self) -> tuple[int, ...]:
        """The layers that are on their way."""


class ReadPart(Protocol):
    """How much of a prompt was read."""

    @property
    def tokens(self) -> int:
        """Of the prompt."""

    @property
    def cached(self) -> int:
        """Of these, those that were there already."""

    def __call__(self, layer: int) -> float:
        """The part of the others that was read, 0 to 1, where a pass has come to this layer."""


class LayerThrottle:
    """Limits the rate of layer events: only slow passes have any, and not more than a person can follow."""

    def __init__(self) -> None:
        self._begin = 0.0
        self._layer = -1
        self._was_slow = False
        self._next = 0.0  # when the next event would be due, if they came evenly

    def forget(self) -> None:
        """Begin anew, for another answer."""
        self._layer, self._was_slow = -1, False

    def end(self) -> None:
        """A pass is over; what follows is no part of it."""
        if self._layer >= 0:
            self._was_slow = time.monotonic() - self._begin >= SLOW_SECONDS
        self._layer = -1

    def come_to(self, layer: int) -> bool:
        """A pass has come to this layer; True if an event is due."""
        now = time.monotonic()
        if self._layer < 0 or layer < self._layer:
            if self._layer >= 0:
                self._was_slow = now - self._begin >= SLOW_SECONDS
            self._begin = now
        self._layer = layer
        if not (self._was_slow or now - self._begin >= SLOW_SECONDS) or now < self._next:
            return False
        self._next = max(self._next, now - (BURST - 1) * EVENTS_APART) + EVENTS_APART
        return True


@contextmanager
def layers_seen(layers: "Iterable[nn.Module]", passed: Passed) -> Iterator[None]:
    """As long as this holds, `passed` is called at every layer: when it is needed, and when its weights are there.

    Hooks of a layer that two networks share run for both.
    """
    with ExitStack() as hooks:
        for index, layer in enumerate(layers):
            # One hook before the stream's own, which waits for the weights, and one after it.
            hooks.callback(layer.register_forward_pre_hook(_call(passed, index, True), prepend=True).remove)
            hooks.callback(layer.register_forward_pre_hook(_call(passed, index, False)).remove)
        yield


def _call(passed: Passed, index: int, waits: bool) -> KnownHook:
    return KnownHook(lambda _inputs: passed(index, waits), "once")


@dataclass(frozen=True, slots=True)
class _Judged:
    """A round with verdicts."""

    judgement: "NodeLogProbs"
    piece: Callable[[int], str]


class _Rounds:
    """The newest rounds with verdicts, oldest first. One thread adds; any other may ask."""

    def __init__(self) -> None:
        self._rounds: dict[tuple[int, int], _Judged] = {}
        self._nodes = 0

    def find(self, request: int, index: int) -> _Judged | None:
        """A round, if it is still there."""
        return self._rounds.get((request, index))

    def keep(self, request: int, index: int, judged: _Judged) -> None:
        """The oldest rounds go where there are too many nodes."""
        self._rounds[request, index] = judged
        self._nodes += len(judged.judgement.best_tokens)
        while self._nodes > MOST_JUDGED and len(self._rounds) > 1:
            oldest = self._rounds.pop(next(iter(self._rounds)))
            self._nodes -= len(oldest.judgement.best_tokens)


class Watcher:
    """Observes the rounds. `watch` and `answer` may be called from another thread than the rounds'.

    An event about a tree cannot wait for the next one that is yielded: the target's pass may take seconds. A tree that
    has grown too soon after the one before is told of at one of the pass's layers.
    """

    def __init__(self, post: Callable[[Event], None] = lambda _: None, judges: bool = False) -> None:
        """`post` sends an event to the application at once; `judges`: rounds have verdicts until `watch` says other."""
        self._post = post
        self._wanted = Watch(verdicts=judges)
        self._request = self._index = 0
        self._piece: Callable[[int], str] = str
        self._stream: ArrivingLayers | None = None
        self._last_draft = self._round_began = 0.0
        self._was_slow = False
        self._untold: Callable[[], Tree] | None = None
        self._checked: Tree | None = None  # what the target's pass is about; None between passes
        self._is_passing = False
        self._throttle = LayerThrottle()
        self._read: ReadPart | None = None  # while a prompt is read
        self._looked: Callable[[], float] = float
        self._reading_began = self._last_reading = 0.0
        self._judged = _Rounds()
        self._verdicts: TargetLogProbs | None = None

    def watch(self, wanted: Watch) -> None:
        """What is to be told from the next round on."""
        self._wanted = wanted
        if not wanted.verdicts:
            self._judged = _Rounds()  # another one: the rounds may be adding to the old one just now

    def begin(self, request: int, piece: Callable[[int], str], stream: ArrivingLayers | None = None) -> "Watcher":
        """An answer begins, with a pass over the prompt; `piece` gives the text of one token for display.

        `stream` brings the target's weights, if something has to.
        """
        self.end()
        self._request, self._index, self._piece, self._stream = request, 0, piece, stream
        self._is_passing = True
        self._round_began, self._was_slow = time.monotonic(), False
        return self

    @contextmanager
    def reading(self, part: ReadPart, looked: Callable[[], float] = float) -> Iterator[None]:
        """While it is open, a prompt is read; `part`: how much of it was.

        `looked`: seconds that encoding its pictures took so far. It is told whatever is watched: a person waits for it.
        """
        self._read, self._looked, self._reading_began = part, looked, time.monotonic()
        self._last_reading = self._reading_began + LONG_READING - READ_APART
        try:
            yield
        finally:
            self._read, self._looked = None, float

    @contextmanager
    def answering(
        self,
        request: int,
        piece: Callable[[int], str],
        layers: "Iterable[nn.Module]",
        stream: ArrivingLayers | None = None,
    ) -> Iterator[None]:
        """While it is open the answer is watched, its passes over the target's layers too; as in `begin`."""
        self.begin(request, piece, stream)
        try:
            with layers_seen(layers, self.come_to):
                yield
        finally:
            self.end()

    def end(self) -> None:
        """The answer is over, however: hold on to nothing that would keep a model in memory."""
        self._untold = self._checked = self._stream = self._verdicts = None
        self._is_passing = False
        self._throttle.forget()

    def grown(self, tree: "Callable[[], Tree]") -> None:
        """Tell of the tree as it is by now where rounds are slow; if one was told of a moment ago, a little later."""
        if self._checked is None:
            self._is_passing = False
        if self._wanted.drafts:
            self._untold = tree
            self._tell_draft()

    def drafted(self, tree: "Tree") -> None:
        """The target's pass over this tree begins."""
        self._checked, self._is_passing = tree, True
        if self._wanted.drafts:
            self._untold = (lambda: tree) if tree.drafted else None
            self._tell_draft()

    def come_to(self, layer: int, waits: bool) -> None:
        """A pass over the target's layers has come to this one, and may have to wait for its weights."""
        if not self._is_passing:
            return
        self._tell_reading(layer)
        self._tell_draft()
        if self._wanted.layers and self._throttle.come_to(layer):
            self._post(Passing(self._request, layer, waits, self._stream.arriving if self._stream else ()))

    def look(self, picture: int, pictures: int) -> None:
        """A layer of an encoder begins, for one of the pictures that are encoded for the prompt; counted from 1."""
        self._tell_reading(0, picture, pictures)

    def verified(self, tree: "Tree", logits: "Tensor", path: "Path") -> None:
        """Keep what the target thinks of the nodes: a few numbers of each, never the logits."""
        self._untold = self._checked = None
        self._is_passing = False
        self._throttle.end()
        now = time.monotonic()
        self._was_slow, self._round_began = now - self._round_began >= SLOW_ROUND, now
        if self._wanted.verdicts:
            from engine.speculation.target_log_probs import judge  # noqa: PLC0415  # torch is there once there are logits

            judgement = judge(tree, logits, path)
            self._judged.keep(self._request, self._index, _Judged(judgement, self._piece))
            self._verdicts = TargetLogProbs(judgement.log_probs.numpy().tobytes(), judgement.ranks.numpy().tobytes())
        self._index += 1

    def take_target_log_probs(self) -> TargetLogProbs | None:
        """Those of the round that was just verified, once."""
        verdicts, self._verdicts = self._verdicts, None
        return verdicts

    def answer(self, question: Inspect) -> Inspected | None:
        """The target's likeliest tokens behind a node; None where that round is long over, or has no such node."""
        judged = self._judged.find(question.id, question.index)
        if judged is None:
            return None
        best = judged.judgement
        if not 0 <= question.node < len(best.best_tokens):
            return None
        tokens = best.best_tokens[question.node].tolist()
        log_probs = best.best_log_probs[question.node].tolist()
        pieces = tuple(judged.piece(token) for token in tokens)
        return Inspected(question.id, question.index, question.node, tuple(tokens), tuple(log_probs), pieces)

    def _tell_reading(self, layer: int, picture: int = 0, pictures: int = 0) -> None:
        now = time.monotonic()
        if self._read is not None and now - self._last_reading >= READ_APART:
            self._last_reading = now
            seconds = max(0.0, now - self._reading_began - self._looked())
            read = self._read
            part = read(layer)
            self._post(Reading(self._request, part, seconds, picture, pictures, read.tokens, read.cached))

    def _tell_draft(self) -> None:
        now = time.monotonic()
        if self._untold is None or now - self._last_draft < DRAFTS_APART:
            return
        if not self._was_slow and now - self._round_began < SLOW_ROUND:
            return
        tree, self._untold, self._last_draft = self._untold(), None, now
        checked = self._checked
        if checked is not None and tree is not checked:
            tree = enlarge(checked, tree)
        packed = pack_tree(tree, self._piece)
        self._post(Drafted(self._request, self._index, packed, len(checked) if checked is not None else 0))
