"""What the rounds are made of: what a tree costs, a model that scores, methods, strategies, observers."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from engine.speculation.trees.arrays import Numbers, isotonic
from engine.speculation.trees.tree import Path, Tree


class Routing(Protocol):
    """What a mixture's routers chose in the target's last pass."""

    @property
    def layers(self) -> Sequence[int]:
        """The layers that have experts; none before the first pass."""

    @property
    def count(self) -> int:
        """Experts of a layer."""

    def chosen(self, layer: int) -> Tensor:
        """int64 [rows, experts of a token], in host memory; rows as the pass had them."""


class NodePrices(Protocol):
    """What single nodes cost besides their rows, such as experts that only they touch."""

    def worthwhile(self, tree: Tree, rows: Numbers) -> list[int] | None:
        """The nodes of the part of `tree` that is worth most, ascending, the root left out; None if that is not known.

        `rows`: see `MarginalCost`.
        """


@dataclass(frozen=True, eq=False, slots=True)
class MarginalCost:
    """Tokens that could have been written in the time that something takes, at the rate that is paid for it.

    A tree's worth is the tokens to be expected of it, its chances summed up, less its price. Where the rate is the best
    that can be had, no other trees give more tokens per second than those of the highest worth (Dinkelbach, 1967). So
    every tree is as large as its own text lets it be, and an error in the rate costs little.

    `level`: of one draft pass, and `node`: of a node in it; `carried`: how much of the chance of reaching a level is
    still found in the next one; `rows`: float64 [n + 1], rising, of a pass of the target over the root and 0 to n
    nodes, with what drafting these nodes takes. `nodes`: what a node costs beyond that, or less than it, where nodes
    differ; the size of a tree that is still growing follows from `rows` alone.
    """

    level: float
    node: float
    carried: float
    rows: Numbers
    nodes: NodePrices | None = None
    _hull: Numbers = field(init=False)  # the lower convex hull of `rows`

    def __post_init__(self) -> None:
        slopes = isotonic(np.diff(self.rows).tolist(), [1.0] * (len(self.rows) - 1))
        object.__setattr__(self, "_hull", self.rows[0] + np.concatenate([[0.0], np.cumsum(slopes)]))

    def best_size(self, chances: Numbers) -> int:
        """How many of the likeliest nodes are worth a row of the target's pass; chances: float64 [n], descending."""
        return _most_worth(chances, self.rows)

    def hopeful_size(self, chances: Numbers) -> int:
        """The same while more nodes are to come: a row that is dear if it is the last must not end the tree early.

        So what the first nodes cost more is shared by all that may follow.
        """
        return _most_worth(chances, self._hull)

    def is_worth_reading(self, chances: Numbers) -> bool:
        """Whether one more draft pass is expected to pay, over nodes that are reached with these chances.

        Of what it finds behind a node, only what is more than the least that a row costs.
        """
        found = (self.carried * chances - np.diff(self._hull[:2]).sum()).clip(0.0)
        return float(found.sum()) > self.level + self.node * len(chances)


def _most_worth(chances: Numbers, rows: Numbers) -> int:
    gains = np.concatenate([[0.0], chances[: len(rows) - 1].cumsum()])
    return int((gains - rows[: len(gains)]).argmax())


@dataclass(frozen=True, slots=True)
class TreeBounds:
    """How large one tree may be: at most `budget` drafted nodes, and `depth` levels of them.

    With a `price` the tree is as large as its own probabilities make it worth being, within these limits. Methods ask
    here how many nodes to draft and to keep. `probabilities`: returns float64 [n], descending, how likely each drafted
    node is to be accepted; called only where there is a price.
    """

    budget: int
    depth: int
    price: MarginalCost | None = None

    def size(self, probabilities: Callable[[], Numbers]) -> int:
        """Nodes of the finished tree, of those that were drafted."""
        return min(self.budget, self.price.best_size(probabilities())) if self.price else self.budget

    def size_so_far(self, probabilities: Callable[[], Numbers]) -> int:
        """Nodes that the tree would have by now, while further levels may follow."""
        return min(self.budget, self.price.hopeful_size(probabilities())) if self.price else self.budget

    def worthwhile(self, tree: Callable[[], Tree]) -> list[int] | None:
        """Of a tree within the bounds, the nodes to keep where these have prices of their own; None where not.

        Ascending, closed under ancestors, the root left out; `size` says how many to keep where it is None.
        """
        if self.price is None or self.price.nodes is None:
            return None
        return self.price.nodes.worthwhile(tree(), self.price.rows[: self.budget + 1])

    def is_worth_reading(self, probabilities: Callable[[], Numbers]) -> bool:
        """Whether one more draft pass is expected to pay, over nodes that are accepted with these probabilities."""
        return self.price.is_worth_reading(probabilities()) if self.price else True


class Scorer(Protocol):
    """A model with what it has read; `engine.model.context.Context` is one."""

    @property
    def length(self) -> int:
        """Committed tokens."""

    def prefill(self, tokens: Sequence[int]) -> int:
        """Make the committed tokens equal `tokens`; returns how many were there already."""

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """Append nodes to the pending tree, run one pass, return logits [n or last, vocabulary].

        They are in the type that the model computes in: whoever reckons with them does so in float32, in the rows that
        it needs. They are gone with the round, and nobody keeps a view of them.
        """

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Commit a path of pending nodes and forget the others, but for `rest`, which are numbered anew from 0."""


class PathState(Protocol):
    """An answer so far, and which tokens may follow it; `engine.text.grammars.grammar.AnswerState` is one.

    What may follow depends on the path alone, not on the order in which paths of a tree are looked at.
    """

    def follow(self, token: int) -> "PathState":
        """The answer with one more token, whether that may follow or not."""

    def allowed(self) -> bytes | None:
        """The tokens that may follow, a bit each, the lowest of the first byte for token 0; None where any may.

        None, too, for an answer that may not be: it is never said, whatever is drawn behind it.
        """

    def settle(self) -> None:
        """The answer has come to here and will not go back; raises `InputError` where nothing can follow."""


class Drawing(Protocol):
    """Draws the next tokens of an answer; `engine.speculation.methods.verification.Ahead` does.

    logits: [vocabulary], raw; `sampled`: the tokens drawn since it began, each int64 [1], all on the device.
    """

    @property
    def reads_tokens(self) -> bool:
        """Whether the host has to see every token before the next one can be drawn."""

    @property
    def is_plain(self) -> bool:
        """Whether `penalised` changes nothing."""

    def excludes(self, place: int) -> bool:
        """Whether XTC acts on the token behind so many that were sampled."""

    def penalised(self, logits: Tensor, sampled: Sequence[Tensor], path: Sequence[int] | None = None) -> Tensor:
        """float32 [vocabulary], bias and penalties applied; `path`: what was sampled, where the host knows it."""

    def draw(self, logits: Tensor, sampled: Sequence[Tensor]) -> Tensor:
        """The token that follows, int64 [1]: by the number of its position, whatever method asks."""

    def distribution(self, logits: Tensor, sampled: Sequence[Tensor]) -> Tensor:
        """What `draw` draws from at a temperature above 0: float32 [vocabulary], summing to 1."""


class Sampling(Protocol):
    """How the tokens of one answer are drawn; `engine.speculation.methods.verification.Sampler` is one."""

    def ahead(self, answer: Sequence[int], count: int, device: torch.device) -> Drawing:
        """For the next `count` tokens behind `answer`, all tokens of the answer so far."""


class Method(Protocol):
    """A way of speculating: grows a tree for a round, and finds in the target's logits what is accepted of it.

    Made for one answer. The answer has exactly the target's distribution, whatever the tree.
    """

    name: str

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read exactly `tokens`, all of the text but its last token; also when another method wrote some of it."""

    def grow(self, tokens: Sequence[int], bounds: TreeBounds) -> Tree:
        """A tree within `bounds` behind `tokens`, whose last one is the root.

        A method that finds its nodes one after the other ends where they are no longer worth their price.
        """

    def keep_drafting(self) -> bool:
        """While the target's weights are awaited: one more draft pass beyond the tree; False if none is left."""

    def accept(self, tree: Tree, logits: Tensor, answer: Sequence[int]) -> Path:
        """The accepted path and the bonus token behind it, as far as the tree goes, wherever the answer ends.

        logits: [nodes, vocabulary], the target's; `answer`: all tokens of the answer up to the root.
        """

    def keep(self, path: Path) -> None:
        """The path that was kept of the last tree, which the end of the answer may have cut."""


@dataclass(frozen=True, slots=True)
class Choice:
    """For one round: a method, the most nodes it may draft, and the most levels.

    With a `price` the tree ends before that where more would not be worth it. `is_short`: less than was wanted, as
    memory ran out.
    """

    method: Method
    budget: int
    depth: int
    price: MarginalCost | None = None
    is_short: bool = False

    @property
    def bounds(self) -> TreeBounds:
        """The limits of the tree, for the method."""
        return TreeBounds(self.budget, self.depth, self.price)


@dataclass(frozen=True, slots=True)
class RoundResult:
    """One round: what was chosen, the tree, and what the target accepted of it.

    `draft_seconds`: waiting for the tree; `target_seconds`: the target's pass; `seconds`: the whole round.
    `log_probs`: the target's own, of every one of the `tokens`; `likeliest`: the tokens that it found likeliest in each
    one's place, with theirs, if they were asked for.
    """

    choice: Choice
    tree: Tree
    path: Path
    draft_seconds: float
    target_seconds: float
    seconds: float
    log_probs: tuple[float, ...] = ()
    likeliest: tuple[tuple[tuple[int, float], ...], ...] = ()

    @property
    def budget(self) -> int:
        """The nodes that the tree was cut off at: those chosen, or its own where it was left to size itself."""
        return self.tree.drafted if self.choice.price else self.choice.budget

    @property
    def depth(self) -> int:
        """The same for its levels."""
        return max(self.tree.depths) if self.choice.price else self.choice.depth

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens that the answer grew by."""
        return self.path.tokens(self.tree)


class Strategy(Protocol):
    """Chooses a method and a tree size for every round of one answer, and learns from what came of it."""

    @property
    def reason(self) -> str:
        """The reason for its choices as a sentence for people, or empty."""

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read the prompt, all but its last token."""

    def choose(self, tokens: Sequence[int], room: int) -> Choice:
        """For the round behind `tokens`, prompt and answer; the answer may grow by `room` tokens, at least 1."""

    def keep_drafting(self) -> bool:
        """While the target's weights are awaited: let the chosen method draft; False if there is nothing to draft."""

    def learn(self, result: RoundResult) -> None:
        """What came of the last choice."""


class Fixed:
    """The same method and budget in every round."""

    reason = ""

    def __init__(self, method: Method, budget: int, deepest: int = sys.maxsize) -> None:
        """`deepest`: drafted levels at most."""
        self._method = method
        self._budget = budget
        self._deepest = deepest

    def prefill(self, tokens: Sequence[int]) -> None:
        """Hand the prompt on."""
        self._method.prefill(tokens)

    def choose(self, tokens: Sequence[int], room: int) -> Choice:
        """No deeper than the answer may grow: the last token is the target's own."""
        del tokens
        return Choice(self._method, self._budget, min(self._deepest, room - 1))

    def keep_drafting(self) -> bool:
        """Let the method draft."""
        return self._method.keep_drafting()

    def learn(self, result: RoundResult) -> None:
        """Nothing to learn."""


class Observer(Protocol):
    """Follows the rounds, read-only. What it does delays them, so it does nothing unless the rounds are watched."""

    def grown(self, tree: Callable[[], Tree]) -> None:
        """The draft has added nodes. `tree` makes the tree as it is by now, which takes time."""

    def drafted(self, tree: Tree) -> None:
        """The tree has all its nodes; the target's pass comes next."""

    def verified(self, tree: Tree, logits: Tensor, path: Path) -> None:
        """The target has been asked; logits: [nodes, vocabulary], gone when this returns."""


class NullObserver:
    """Observes nothing."""

    def grown(self, tree: Callable[[], Tree]) -> None:
        """Do nothing."""

    def drafted(self, tree: Tree) -> None:
        """Do nothing."""

    def verified(self, tree: Tree, logits: Tensor, path: Path) -> None:
        """Do nothing."""
