"""The heart: grow a tree, score it in one pass, accept a path, keep it; until the answer ends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from engine.speculation.acceptance import Draw, accept
from engine.speculation.drafter import Drafter, Scorer
from engine.speculation.tree import Path, Tree
from engine.stats import Stopwatch


class Ending(Protocol):
    """Decides, token by token, when an answer ends."""

    @property
    def room(self) -> int:
        """Tokens the answer may still grow by; 0 once it has ended."""

    def push(self, token: int) -> bool:
        """Take the next token of the answer; True if it is the last one."""


@dataclass(frozen=True, slots=True)
class RoundResult:
    """One round: the tree, what the target accepted of it, and the tokens the answer grew by."""

    tree: Tree
    path: Path
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Speculation:
    """Who takes part in an answer: the target that verifies, the drafter that guesses, and the draw from the target."""

    target: Scorer
    drafter: Drafter
    draw: Draw
    ending: Ending
    budget: int
    clock: Stopwatch


def rounds(speculation: Speculation, prompt: Sequence[int]) -> Iterator[RoundResult]:
    """Answer `prompt` (at least one token; all but the last are in the target's cache already), a tree per round.

    Between two rounds target and drafter hold the prompt and the answer up to, but not including, its last token.
    """
    answer: list[int] = []
    while speculation.ending.room:
        result = next_round(speculation, prompt, answer)
        answer.extend(result.tokens)
        yield result


@torch.inference_mode()  # all of a round, as the drafter may be at work inside the target's pass
def next_round(speculation: Speculation, prompt: Sequence[int], answer: Sequence[int]) -> RoundResult:
    """One tree, one pass of the target, one accepted path."""
    target, drafter, ending, clock = speculation.target, speculation.drafter, speculation.ending, speculation.clock
    with clock.measure("draft"):
        tree = drafter.grow([*prompt, *answer], speculation.budget, depth=ending.room - 1)
    with clock.measure("target"):
        logits = target.score(tree.tokens, tree.parents)
    path = accept(tree, logits, speculation.draw, ending.push, answer)
    drafter.keep(path)
    target.keep(path.nodes)
    return RoundResult(tree, path, path.tokens(tree))
