"""The heart: grow a tree, score it in one pass of the target, accept a path, keep it; until the answer ends."""

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from engine.errors import OutOfMemory
from engine.own_thread import threads_for
from engine.protocol.messages import FinishReason, Seconds
from engine.speculation.interfaces import Choice, NullObserver, Observer, RoundResult, Scorer, Strategy
from engine.speculation.methods.verification import require_numbers, said_of
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.tuning.tree_limit import TreeLimit


class Stopwatch:
    """Adds up wall time under names such as `draft` and `target`."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._last: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the time spent inside to `name`, also when it ends in an exception."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._last[name] = seconds = time.perf_counter() - begin
            self._seconds[name] += seconds

    def last(self, name: str) -> float:
        """Seconds of the newest measurement under `name`."""
        return self._last[name]

    def add(self, name: str, seconds: float) -> None:
        """Add time that was measured elsewhere."""
        self._seconds[name] += seconds

    def __getitem__(self, name: str) -> float:
        return self._seconds[name]

    def seconds(self, load: float = 0.0) -> Seconds:
        """Everything measured so far; `other` is decode less draft and target."""
        draft, target, decode = self["draft"], self["target"], self["decode"]
        return Seconds(
            load=load, prefill=self["prefill"], draft=draft, target=target, decode=decode,
            other=max(0.0, decode - draft - target), hidden_draft=self["hidden_draft"],
            stream_wait=self["stream_wait"],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Speculation:
    """The parts of one answer, and the steps of a round, which the clock times and the observer follows.

    `target` verifies; `strategy` chooses method and size of the trees, and `limit` holds them to what memory allows;
    `reach`: the levels that the target can verify in the next pass as if it read them one by one. `top_log_probs`: how
    many of the likeliest tokens are told of, at every position. `guard`: runs a round, and raises `OutOfMemory` where
    memory ran out in any part of it.
    """

    target: Scorer
    strategy: Strategy
    answer: "Answer"
    clock: Stopwatch
    limit: TreeLimit = field(default_factory=TreeLimit)
    observer: Observer = field(default_factory=NullObserver)
    reach: Callable[[], int] = lambda: sys.maxsize
    top_log_probs: int = 0
    guard: Callable[[Callable[[], RoundResult]], RoundResult] = lambda run: run()

    def choose(self, text: Sequence[int]) -> Choice:
        """The method and the final bounds of the next tree: the one place where they are decided.

        No deeper than the answer may grow and the target can verify, no larger than memory allows.
        """
        room = min(self.answer.room, self.reach() + 1)
        return self.limit.cut(self.strategy.choose(text, room))

    def grow(self, text: Sequence[int]) -> tuple[Choice, Tree]:
        """The next tree behind `text`, and the choice that it was grown by."""
        with self.clock.measure("draft"):
            choice = self.choose(text)
            tree = choice.method.grow(text, choice.bounds)
        self.limit.drafted = tree.drafted
        self.observer.drafted(tree)
        return choice, tree

    def score(self, tree: Tree) -> Tensor:
        """One pass of the target over the tree: logits [nodes, vocabulary]."""
        with self.clock.measure("target"):
            return self.target.score(tree.tokens, tree.parents)

    def keep_drafting(self) -> bool:
        """While the target's weights are awaited: one more draft pass; False if there is nothing to draft."""
        with self.clock.measure("hidden_draft"):
            return self.strategy.keep_drafting()

    def keep(self, choice: Choice, tree: Tree, logits: Tensor, path: Path) -> None:
        """Have draft and target commit the path and forget the rest of the tree."""
        self.observer.verified(tree, logits, path)
        choice.method.keep(path)
        self.target.keep(path.nodes)


def prefill(speculation: Speculation, prompt: Sequence[int]) -> int:
    """Have target and draft read the prompt but for its last token; returns the tokens that the target knew already."""
    cached = speculation.target.prefill(prompt[:-1])
    speculation.strategy.prefill(prompt[:-1])
    return cached


def rounds(speculation: Speculation, prompt: Sequence[int]) -> Iterator[RoundResult]:
    """Answer `prompt` (at least one token; all but the last are in the target's cache already), a tree per round.

    Between two rounds target and draft hold the prompt and the answer up to, but not including, its last token. A round
    that runs out of memory is run again with a smaller tree. Raises `OutOfMemory` where there is none even for a round
    without a tree.
    """
    answer = speculation.answer
    while answer.room:
        text = [*prompt, *answer.tokens]
        yield speculation.limit.rescue(partial(_attempt, speculation, text), text, lambda: answer.room)


@torch.inference_mode()
def _attempt(speculation: Speculation, text: Sequence[int]) -> RoundResult:
    """A round, after which another one can be tried if memory runs out."""
    try:
        return speculation.guard(partial(next_round, speculation, text))
    except OutOfMemory:
        speculation.target.keep(())  # a tree that was scored, but not verified
        raise


@torch.inference_mode()  # all of a round, as the draft may be at work inside the target's pass
def next_round(speculation: Speculation, text: Sequence[int]) -> RoundResult:
    """One tree, one pass of the target, one accepted path; `text`: prompt and answer.

    Raises `ModelError` where the target computes no finite logits.
    """
    begin = time.perf_counter()
    clock, answer = speculation.clock, speculation.answer
    choice, tree = speculation.grow(text)
    logits = speculation.score(tree)
    with threads_for(logits.numel()):
        path = choice.method.accept(tree, logits, answer.tokens)
    with threads_for(len(path.nodes) * logits.shape[-1]):
        said = said_of(tree, logits, path, speculation.top_log_probs)
    taken = answer.extend(path.tokens(tree))  # the answer may end before the path does
    path, said = path.cut(tree, taken), said.cut(taken)
    require_numbers(said.log_probs)
    speculation.keep(choice, tree, logits, path)
    seconds = time.perf_counter() - begin
    spent = (clock.last("draft"), clock.last("target"), seconds)
    result = RoundResult(choice, tree, path, *spent, said.log_probs, said.likeliest)
    speculation.strategy.learn(result)
    return result


class TextSink(Protocol):
    """Turns tokens into text that is safe to show; `engine.text.text_stream.ReasoningStream` is one."""

    @property
    def stopped(self) -> bool:
        """Whether the text has ended by itself."""

    @property
    def stop(self) -> str:
        """The stop string that ended it; empty if none did."""

    def push(self, token: int) -> str:
        """Take a token, return the text that can be shown now."""

    def flush(self) -> str:
        """Return what was held back."""


@dataclass(frozen=True, slots=True)
class Written:
    """Text that can be shown, and how many of its characters came with each token; some came with none, or later."""

    text: str
    lengths: tuple[int, ...]


class Answer:
    """Ends at an end token, at a stop string, or when `max_new_tokens` are written, whichever comes first."""

    def __init__(self, sink: TextSink, end_tokens: Set[int], max_new_tokens: int) -> None:
        """`end_tokens` may be empty, to write on past every end. The end token counts as a token of the answer."""
        self.tokens: list[int] = []
        self.reason: FinishReason = "length"
        self._sink = sink
        self._end_tokens = end_tokens
        self._max_new_tokens = max_new_tokens
        self._ended = False
        self._unseen = ""
        self._lengths: list[int] = []  # of what each token wrote of `_unseen`

    @property
    def room(self) -> int:
        """Tokens the answer may still grow by; 0 once it has ended."""
        return 0 if self._ended else self._max_new_tokens - len(self.tokens)

    @property
    def stop(self) -> str:
        """The stop string that ended it; empty if none did."""
        return self._sink.stop

    def extend(self, tokens: Sequence[int]) -> int:
        """Take the next tokens, up to the one that ends the answer; returns how many were taken."""
        for taken, token in enumerate(tokens, start=1):
            if self._push(token):
                return taken
        return len(tokens)

    def take_written(self) -> Written:
        """What can be shown and was not taken yet, of the tokens since then."""
        written = Written(self._unseen, tuple(self._lengths))
        self._unseen, self._lengths = "", []
        return written

    def take_rest(self) -> str:
        """The text that was not taken yet, with what was held back; for the end."""
        return self.take_written().text + self._sink.flush()

    def _push(self, token: int) -> bool:
        """Take the next token of the answer; True if it is the last one."""
        assert self.room, "an answer that has ended takes no more tokens"
        self.tokens.append(token)
        self._lengths.append(0)
        if token in self._end_tokens:
            self._ended, self.reason = True, "stop"
            return True
        text = self._sink.push(token)
        self._unseen += text
        self._lengths[-1] = len(text)
        if self._sink.stopped:
            self._ended, self.reason = True, "stop"
        return not self.room
