"""Turns the rounds of one answer into events, and counts what they did."""

import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from operator import sub
from statistics import median_low
from typing import Protocol

from engine.observing.watcher import pack_tree
from engine.protocol.messages import Finished, Prefilled, Round, Seconds, Statistics
from engine.protocol.sentences import joined
from engine.protocol.watching import TargetLogProbs
from engine.speculation.interfaces import RoundResult
from engine.speculation.rounds import Speculation, Written, prefill


class ExpertUse(Protocol):
    """What a mixture's passes did with experts; counts since the stream began."""

    @property
    def experts(self) -> int:
        """Used in a pass of a layer."""

    @property
    def in_place(self) -> int:
        """Of these, multiplied as they are stored, where they lie."""


class Stream(Protocol):
    """Brings weights to where they are used; counts since it began."""

    @property
    def bytes_streamed(self) -> int:
        """Of weights that were brought."""

    @property
    def waited_seconds(self) -> float:
        """Time that computation stood still for them, whether the draft worked meanwhile or not."""

    @property
    def expert_use(self) -> ExpertUse:
        """Of the processor."""


class RoundEvents:
    """Follows one answer. The clock's `decode` runs while a round is computed, not while the event is read."""

    def __init__(
        self,
        request: int,
        piece: Callable[[int], str],
        speculation: Speculation,
        stream: Stream | None = None,
        take_target_log_probs: Callable[[], TargetLogProbs | None] = lambda: None,
        complaints: Callable[[], Iterable[str]] = tuple,
        is_silent: Callable[[int], bool] | None = None,
    ) -> None:
        """`piece` gives the text of one token for display; `stream` None: nothing streams.

        `take_target_log_probs` gives what the target thinks of the newest round's nodes, None where nobody asked.
        `complaints`, asked at the end, says what went wrong beside the answer. `is_silent`: whether a token writes no
        text of an answer.
        """
        self._passes = 0
        self._new_tokens = 0
        self._drafted_nodes = 0
        self._short_passes = 0
        self._prompt_tokens = self._cached_tokens = 0
        self._first_token_seconds = 0.0
        self._chosen: dict[str, list[int]] = {}  # the budgets of every method's rounds
        self._request = request
        self._piece = piece
        self._speculation = speculation
        self._clock = speculation.clock
        self._stream = stream
        self._take_target_log_probs = take_target_log_probs
        self._complaints = complaints
        self._is_silent = is_silent
        self._bytes_before = self._bytes_streamed
        self._experts_before = self._experts
        self._begin = time.perf_counter()

    def prefilled(self, prompt: Sequence[int]) -> Prefilled:
        """Have the prompt read."""
        self._prompt_tokens = len(prompt)
        with self._clock.measure("prefill"):
            self._cached_tokens = prefill(self._speculation, prompt)
        return Prefilled(self._request, len(prompt), self._cached_tokens, self._clock["prefill"])

    def follow(self, results: Iterable[RoundResult]) -> Iterator[Round]:
        """One `Round` per result, each with the text that became safe to show."""
        iterator = iter(results)
        while True:
            before, bytes_before = self._clock.seconds(), self._bytes_streamed
            with self._clock.measure("decode"), self._waiting():
                result = next(iterator, None)
            if result is None:
                return
            if not self._passes:
                self._first_token_seconds = time.perf_counter() - self._begin
            self._passes += 1
            self._new_tokens += len(result.tokens)
            self._drafted_nodes += result.tree.drafted
            self._short_passes += result.choice.is_short
            self._chosen.setdefault(result.choice.method.name, []).append(result.budget)
            spent = Seconds(*map(sub, astuple(self._clock.seconds()), astuple(before)))
            streamed = self._bytes_streamed - bytes_before
            yield self._round(result, self._speculation.answer.take_written(), spent, streamed)

    def finished(self, is_complete: bool, method: str, note: str = "") -> Finished:
        """The end, cancelled where the answer is not complete; `method`: that of no round at all; `note`: why it."""
        parts = self._speculation
        chosen = max(self._chosen, key=lambda name: len(self._chosen[name]), default="")  # most often
        used, in_place = (now - before for now, before in zip(self._experts, self._experts_before, strict=True))
        statistics = Statistics(
            method=chosen or method,
            budget=median_low(self._chosen.get(chosen, [0])),
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self._cached_tokens,
            new_tokens=self._new_tokens,
            passes=self._passes,
            drafted_nodes=self._drafted_nodes,
            first_token_seconds=self._first_token_seconds,
            bytes_streamed=self._bytes_streamed - self._bytes_before,
            seconds=self._clock.seconds(),
            note=joined((note, *self._complaints(), parts.strategy.reason, parts.limit.words)),
            experts_used=used,
            experts_in_place=in_place,
            short_passes=self._short_passes,
        )
        reason = parts.answer.reason if is_complete else "cancelled"
        return Finished(self._request, reason, parts.answer.take_rest(), statistics, parts.answer.stop)

    @property
    def _bytes_streamed(self) -> int:
        return self._stream.bytes_streamed if self._stream else 0

    @property
    def _experts(self) -> tuple[int, int]:
        """Used so far, and multiplied where they lie."""
        use = self._stream.expert_use if self._stream else None
        return (use.experts, use.in_place) if use else (0, 0)

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
            index=self._passes - 1,
            tree=pack_tree(result.tree, self._piece, self._is_silent),
            accepted=result.path.nodes,
            bonus=result.path.bonus,
            bonus_piece=self._piece(result.path.bonus),
            new_tokens=len(result.tokens),
            text=written.text,
            seconds=seconds,
            method=result.choice.method.name,
            budget=result.budget,
            bytes_streamed=bytes_streamed,
            verdicts=self._take_target_log_probs(),
            lengths=array("I", written.lengths).tobytes(),
            log_probs=array("f", result.log_probs).tobytes(),
            top=tuple(
                tuple((self._piece(token), log_prob) for token, log_prob in likeliest) for likeliest in result.likeliest
            ),
        )
