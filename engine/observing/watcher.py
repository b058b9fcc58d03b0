"""Tells what the application watches of the rounds, while they happen; costs nothing where it watches nothing."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.observing.packing import pack_tree
from engine.observing.passing import Passes, Stream
from engine.protocol.messages import Event
from engine.protocol.watching import Drafted, Inspect, Inspected, Passing, Verdicts, Watch
from engine.speculation.trees.tree import enlarge

if TYPE_CHECKING:
    from torch import Tensor

    from engine.speculation.target_log_probs import NodeLogProbs
    from engine.speculation.trees.tree import Path, Tree

DRAFTS_APART = 0.05  # seconds: nobody sees more than 20 trees a second
MOST_JUDGED = 1 << 18  # nodes of past rounds that can be asked about, of 64 bytes each
SLOW_ROUND = 0.25  # seconds; a tree of a round that takes less is verified before one could see it grow


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
    """A witness of the rounds. `watch` and `answer` may be called from another thread than the rounds'.

    An event about a tree cannot wait for the next one that is yielded: the target's pass may take seconds. A tree that
    has grown too soon after the one before is told of at one of the pass's layers.
    """

    def __init__(self, post: Callable[[Event], None] = lambda _: None) -> None:
        """`post` sends an event to the application at once."""
        self._post = post
        self._wanted = Watch()
        self._request = self._index = 0
        self._piece: Callable[[int], str] = str
        self._stream: Stream | None = None
        self._last_draft = self._round_began = 0.0
        self._was_slow = False
        self._untold: Callable[[], Tree] | None = None
        self._checked: Tree | None = None  # what the target's pass is about; None between passes
        self._is_passing = False
        self._passes = Passes()
        self._judged = _Rounds()
        self._verdicts: Verdicts | None = None

    def watch(self, wanted: Watch) -> None:
        """What is to be told from the next round on."""
        self._wanted = wanted
        if not wanted.verdicts:
            self._judged = _Rounds()  # another one: the rounds may be adding to the old one just now

    def begin(self, request: int, piece: Callable[[int], str], stream: Stream | None = None) -> "Watcher":
        """An answer begins, with a pass over the prompt; `piece` gives the text of one token for display.

        `stream` brings the target's weights, if something has to.
        """
        self.end()
        self._request, self._index, self._piece, self._stream = request, 0, piece, stream
        self._is_passing = True
        self._round_began, self._was_slow = time.monotonic(), False
        return self

    def end(self) -> None:
        """The answer is over, however: hold on to nothing that would keep a model in memory."""
        self._untold = self._checked = self._stream = self._verdicts = None
        self._is_passing = False
        self._passes.forget()

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
        self._tell_draft()
        if self._wanted.layers and self._passes.come_to(layer):
            self._post(Passing(self._request, layer, waits, self._stream.arriving if self._stream else ()))

    def verified(self, tree: "Tree", logits: "Tensor", path: "Path") -> None:
        """Keep what the target thinks of the nodes: a few numbers of each, never the logits."""
        self._untold = self._checked = None
        self._is_passing = False
        self._passes.end()
        now = time.monotonic()
        self._was_slow, self._round_began = now - self._round_began >= SLOW_ROUND, now
        if self._wanted.verdicts:
            from engine.speculation.target_log_probs import judge  # noqa: PLC0415  # torch is there once there are logits

            judgement = judge(tree, logits, path)
            self._judged.keep(self._request, self._index, _Judged(judgement, self._piece))
            self._verdicts = Verdicts(judgement.log_probs.numpy().tobytes(), judgement.ranks.numpy().tobytes())
        self._index += 1

    def take_verdicts(self) -> Verdicts | None:
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
