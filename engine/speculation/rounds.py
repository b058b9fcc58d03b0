"""The heart: grow a tree, score it in one pass, accept a path, keep it; until the answer ends."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import torch

from engine.speculation.interfaces import NullObserver, Observer, RoundResult, Scorer, Strategy
from engine.speculation.target_log_probs import said_log_probs
from engine.speculation.tuning.tree_limit import TreeLimit
from engine.stats import Stopwatch


class Ending(Protocol):
    """Decides, token by token, when an answer ends."""

    @property
    def room(self) -> int:
        """Tokens the answer may still grow by; 0 once it has ended."""

    def push(self, token: int) -> bool:
        """Take the next token of the answer; True if it is the last one."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """Who takes part in an answer: the target that verifies, and the strategy that says who drafts, and how much.

    `limit`: how much of that there is memory for. `reach`: the levels that the target can verify in the next pass as if
    it read them one by one.
    """

    target: Scorer
    strategy: Strategy
    ending: Ending
    clock: Stopwatch
    limit: TreeLimit = field(default_factory=TreeLimit)
    observer: Observer = field(default_factory=NullObserver)
    reach: Callable[[], int] = lambda: sys.maxsize


def rounds(speculation: Speculation, prompt: Sequence[int]) -> Iterator[RoundResult]:
    """Answer `prompt` (at least one token; all but the last are in the target's cache already), a tree per round.

    Between two rounds target and draft hold the prompt and the answer up to, but not including, its last token.
    Raises `OutOfMemory` where there is no memory even for a round without a tree.
    """
    answer: list[int] = []
    ending, limit = speculation.ending, speculation.limit
    while ending.room:
        attempt = partial(next_round, speculation, prompt, answer)
        result = limit.rescue(attempt, [*prompt, *answer], lambda: ending.room)
        answer.extend(result.tokens)
        yield result


@torch.inference_mode()  # all of a round, as the draft may be at work inside the target's pass
def next_round(speculation: Speculation, prompt: Sequence[int], answer: Sequence[int]) -> RoundResult:
    """One tree, one pass of the target, one accepted path."""
    target, strategy, ending, clock = speculation.target, speculation.strategy, speculation.ending, speculation.clock
    begin = time.perf_counter()
    room = min(ending.room, speculation.reach() + 1)
    with clock.measure("draft") as drafting:
        choice = speculation.limit.cut(strategy.choose([*prompt, *answer], room))
        tree = choice.method.grow([*prompt, *answer], choice.budget, choice.depth, choice.price)
    speculation.observer.drafted(tree)
    with clock.measure("target") as scoring:
        logits = target.score(tree.tokens, tree.parents)
    path = choice.method.accept(tree, logits, ending.push, answer)
    speculation.observer.verified(tree, logits, path)
    choice.method.keep(path)
    target.keep(path.nodes)
    log_probs = said_log_probs(tree, logits, path)
    seconds = time.perf_counter() - begin
    result = RoundResult(choice, tree, path, drafting.seconds, scoring.seconds, seconds, log_probs)
    strategy.learn(result)
    return result
