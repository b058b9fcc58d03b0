"""The doors of the rounds: who scores nodes, how tokens are drawn, and what a way of speculating has to do."""

from collections.abc import Callable, Sequence
from typing import Protocol

from torch import Tensor

from engine.speculation.price import Price
from engine.speculation.trees.tree import Path, Tree

Ends = Callable[[int], bool]
"""Told every token of the answer in turn; True if it is the last one."""


class Scorer(Protocol):
    """A model with what it has read; `engine.model.context.Context` is one."""

    @property
    def length(self) -> int:
        """Committed tokens."""

    def prefill(self, tokens: Sequence[int]) -> int:
        """Make the committed tokens equal `tokens`; returns how many were there already."""

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """Append nodes to the pending tree, run one pass, return logits [n or last, vocabulary]."""

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Commit a path of pending nodes and forget the others, but for `rest`, which are numbered anew from 0."""


class Sampling(Protocol):
    """How the tokens of one answer are drawn; `engine.speculation.methods.sampling.Sampler` is one.

    logits: float32 [vocabulary], raw; `answer`: all tokens of the answer so far, the path down the tree included.
    """

    def draw(self, logits: Tensor, answer: Sequence[int]) -> int:
        """The token that follows, drawn with the uniform number of its position: the same whoever asks."""

    def distribution(self, logits: Tensor, answer: Sequence[int]) -> Tensor:
        """What `draw` draws from: float32 [vocabulary], summing to 1; a single 1 when greedy."""


class Method(Protocol):
    """A way of speculating: grows a tree for a round, and finds in the target's logits what is accepted of it.

    Made for one answer. The answer has exactly the target's distribution, whatever the tree.
    """

    name: str

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read exactly `tokens`, all of the text but its last token; also when another method wrote some of it."""

    def grow(self, tokens: Sequence[int], budget: int, depth: int, price: Price | None = None) -> Tree:
        """A tree of at most `budget` drafted nodes and `depth` levels behind `tokens`, whose last one is the root.

        A method that finds its nodes one after the other ends where they are no longer worth their `price`.
        """

    def extend(self) -> bool:
        """While the target is waited for: guess on beyond the tree, one small step; False if there is nothing to do."""

    def accept(self, tree: Tree, logits: Tensor, ends: Ends, answer: Sequence[int]) -> Path:
        """The accepted path and the bonus token behind it.

        logits: float32 [nodes, vocabulary], the target's; `answer`: all tokens of the answer up to the root. A token
        that ends the answer is the bonus token even where the tree has it: nothing behind it is wanted.
        """

    def keep(self, path: Path) -> None:
        """What the target made of the last tree."""
