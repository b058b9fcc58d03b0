"""Turns the rounds of one answer into events, and counts what they did."""

import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from statistics import median_low
from typing import Protocol

from engine.observing.packing import pack_tree
from engine.protocol.messages import Round, Seconds
from engine.protocol.watching import Verdicts
from engine.speculation.answer import Written
from engine.speculation.interfaces import RoundResult
from engine.stats import Stopwatch


class Stream(Protocol):
    """Brings weights to where they are used; counts since it began."""

    @property
    def bytes_streamed(self) -> int:
        """Of weights that were brought."""

    @property
    def waited_seconds(self) -> float:
        """Time that computation stood still for them, whether the draft worked meanwhile or not."""


class RoundEvents:
    """Follows one answer. The clock's `decode` runs while a round is computed, not while somebody reads the event."""

    def __init__(
        self,
        request: int,
        piece: Callable[[int], str],
        clock: Stopwatch,
        stream: Stream | None = None,
        take_verdicts: Callable[[], Verdicts | None] = lambda: None,
    ) -> None:
        """`piece` gives the text of one token for display; `stream` None: nothing streams.

        `take_verdicts` gives what the target thinks of the newest round's nodes, None where nobody asked.
        """
        self.passes = 0
        self.new_tokens = 0
        self.drafted_nodes = 0
        self.first_token_seconds = 0.0
        self._chosen: dict[str, list[int]] = {}  # the budgets of every method's rounds
        self._request = request
        self._piece = piece
        self._clock = clock
        self._stream = stream
        self._take_verdicts = take_verdicts
        self._begin = time.perf_counter()

    @property
    def method(self) -> str:
        """The one that was chosen most often; empty if there was no round."""
        return max(self._chosen, key=lambda name: len(self._chosen[name]), default="")

    @property
    def budget(self) -> int:
        """The median of what that method was given."""
        return median_low(self._chosen.get(self.method, [0]))

    def follow(self, results: Iterable[RoundResult], take_written: Callable[[], Written]) -> Iterator[Round]:
        """One `Round` per result, each with the text that became safe to show."""
        iterator = iter(results)
        while True:
            before, bytes_before = self._clock.seconds(), self._bytes_streamed
            with self._clock.measure("decode"), self._waiting():
                result = next(iterator, None)
            if result is None:
                return
            if not self.passes:
                self.first_token_seconds = time.perf_counter() - self._begin
            self.passes += 1
            self.new_tokens += len(result.tokens)
            self.drafted_nodes += result.tree.drafted
            self._chosen.setdefault(result.choice.method.name, []).append(result.budget)
            spent, streamed = _difference(self._clock.seconds(), before), self._bytes_streamed - bytes_before
            yield self._round(result, take_written(), spent, streamed)

    @property
    def _bytes_streamed(self) -> int:
        return self._stream.bytes_streamed if self._stream else 0

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Adds the time in which neither target nor draft could go on to the clock's `stream_wait`."""
        if self._stream is None:
            yield
            return
        waited, drafted = self._stream.waited_seconds, self._clock["hidden_draft"]
        yield
        waited, drafted = self._stream.waited_seconds - waited, self._clock["hidden_draft"] - drafted
        self._clock.add("stream_wait", max(0.0, waited - drafted))

    def _round(self, result: RoundResult, written: Written, seconds: Seconds, bytes_streamed: int) -> Round:
        return Round(
            id=self._request,
            index=self.passes - 1,
            tree=pack_tree(result.tree, self._piece),
            accepted=result.path.nodes,
            bonus=result.path.bonus,
            bonus_piece=self._piece(result.path.bonus),
            new_tokens=len(result.tokens),
            text=written.text,
            seconds=seconds,
            method=result.choice.method.name,
            budget=result.budget,
            bytes_streamed=bytes_streamed,
            verdicts=self._take_verdicts(),
            lengths=array("I", written.lengths).tobytes(),
            log_probs=array("f", result.log_probs).tobytes(),
        )


def _difference(now: Seconds, before: Seconds) -> Seconds:
    return Seconds(
        draft=now.draft - before.draft,
        target=now.target - before.target,
        other=now.other - before.other,
        decode=now.decode - before.decode,
        hidden_draft=now.hidden_draft - before.hidden_draft,
        stream_wait=now.stream_wait - before.stream_wait,
    )
