"""Turns the rounds of one answer into events, and counts what they did."""

import time
from array import array
from collections.abc import Callable, Iterable, Iterator

from engine.messages import Round, Seconds, Tree
from engine.speculation.rounds import RoundResult
from engine.speculation.tree import Tree as SpeculationTree
from engine.stats import Stopwatch


class RoundEvents:
    """Follows one answer. The clock's `decode` runs while a round is computed, not while somebody reads the event."""

    def __init__(self, request: int, piece: Callable[[int], str], clock: Stopwatch) -> None:
        """`piece` gives the text of one token for display."""
        self.passes = 0
        self.new_tokens = 0
        self.drafted_nodes = 0
        self.first_token_seconds = 0.0
        self._request = request
        self._piece = piece
        self._clock = clock
        self._begin = time.perf_counter()

    def follow(self, results: Iterable[RoundResult], take_text: Callable[[], str]) -> Iterator[Round]:
        """One `Round` per result, each with the text that became safe to show."""
        iterator = iter(results)
        while True:
            before = self._clock.seconds()
            with self._clock.measure("decode"):
                result = next(iterator, None)
            if result is None:
                return
            if not self.passes:
                self.first_token_seconds = time.perf_counter() - self._begin
            self.passes += 1
            self.new_tokens += len(result.tokens)
            self.drafted_nodes += result.tree.drafted
            yield self._round(result, take_text(), _difference(self._clock.seconds(), before))

    def _round(self, result: RoundResult, text: str, seconds: Seconds) -> Round:
        return Round(
            id=self._request,
            index=self.passes - 1,
            tree=self._pack(result.tree),
            accepted=result.path.nodes,
            bonus=result.path.bonus,
            bonus_piece=self._piece(result.path.bonus),
            new_tokens=len(result.tokens),
            text=text,
            seconds=seconds,
        )

    def _pack(self, tree: SpeculationTree) -> Tree:
        return Tree(
            tokens=array("i", tree.tokens).tobytes(),
            parents=array("i", tree.parents).tobytes(),
            log_probs=array("f", tree.log_probs).tobytes(),
            pieces=tuple(self._piece(token) for token in tree.tokens),
        )


def _difference(now: Seconds, before: Seconds) -> Seconds:
    return Seconds(
        draft=now.draft - before.draft,
        target=now.target - before.target,
        other=now.other - before.other,
        decode=now.decode - before.decode,
        hidden_draft=now.hidden_draft - before.hidden_draft,
    )
