"""Tells what the application watches of the rounds, while they happen; costs nothing where it watches nothing."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.messages import Event
from engine.packing import pack_tree
from engine.watching import Drafted, Inspect, Inspected, Verdicts, Watch

if TYPE_CHECKING:
    from torch import Tensor

    from engine.speculation.tree import Path, Tree
    from engine.speculation.verdicts import Judgement

DRAFTS_APART = 0.05  # seconds: nobody sees more than 20 trees a second


@dataclass(frozen=True, slots=True)
class _Judged:
    """The newest round with verdicts."""

    id: int
    index: int
    judgement: "Judgement"
    piece: Callable[[int], str]


class Watcher:
    """A witness of the rounds. `watch` and `answer` may be called from another thread than the rounds'.

    An event about a tree cannot wait for the next one that is yielded: the target's pass may take seconds.
    """

    def __init__(self, post: Callable[[Event], None] = lambda _: None) -> None:
        """`post` sends an event to the application at once."""
        self._post = post
        self._wanted = Watch()
        self._request = self._index = 0
        self._piece: Callable[[int], str] = str
        self._last_draft = 0.0
        self._judged: _Judged | None = None
        self._verdicts: Verdicts | None = None

    def watch(self, wanted: Watch) -> None:
        """What is to be told from the next round on."""
        self._wanted = wanted
        if not wanted.verdicts:
            self._judged = None

    def begin(self, request: int, piece: Callable[[int], str]) -> "Watcher":
        """An answer begins; `piece` gives the text of one token for display."""
        self._request, self._index, self._piece = request, 0, piece
        self._verdicts = None
        return self

    def drafted(self, tree: "Tree") -> None:
        """Tell of the tree, unless the one before was told of a moment ago."""
        now = time.monotonic()
        if self._wanted.drafts and tree.drafted and now - self._last_draft >= DRAFTS_APART:
            self._last_draft = now
            self._post(Drafted(self._request, self._index, pack_tree(tree, self._piece)))

    def verified(self, tree: "Tree", logits: "Tensor", path: "Path") -> None:
        """Keep what the target thinks of the nodes: a few numbers of each, never the logits."""
        if self._wanted.verdicts:
            from engine.speculation.verdicts import judge  # noqa: PLC0415  # torch is there once there are logits

            judgement = judge(tree, logits, path)
            self._judged = _Judged(self._request, self._index, judgement, self._piece)
            self._verdicts = Verdicts(judgement.log_probs.numpy().tobytes(), judgement.ranks.numpy().tobytes())
        self._index += 1

    def take_verdicts(self) -> Verdicts | None:
        """Those of the round that was just verified, once."""
        verdicts, self._verdicts = self._verdicts, None
        return verdicts

    def answer(self, question: Inspect) -> Inspected | None:
        """The target's likeliest tokens behind a node; None where that round is over, or has no such node."""
        judged = self._judged
        if judged is None or (judged.id, judged.index) != (question.id, question.index):
            return None
        best = judged.judgement
        if not 0 <= question.node < len(best.best_tokens):
            return None
        tokens = best.best_tokens[question.node].tolist()
        log_probs = best.best_log_probs[question.node].tolist()
        pieces = tuple(judged.piece(token) for token in tokens)
        return Inspected(question.id, question.index, question.node, tuple(tokens), tuple(log_probs), pieces)
