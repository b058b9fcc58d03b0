"""What the rounds are made of: a model that scores, sampling, methods that draft, strategies, and observers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Choice:
    """For one round: a method, the most nodes it may draft, and the most levels.

    With a `price` the tree ends before that where more would not be worth it.
    """

    method: Method
    budget: int
    depth: int
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class RoundResult:
    """One round: what was chosen, the tree, and what the target accepted of it.

    `draft_seconds`: waiting for the tree; `target_seconds`: the target's pass; `seconds`: the whole round.
    `log_probs`: the target's own, of every one of the `tokens`.
    """

    choice: Choice
    tree: Tree
    path: Path
    draft_seconds: float
    target_seconds: float
    seconds: float
    log_probs: tuple[float, ...] = ()

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
    """Chooses for every round of one answer, and sees what came of it."""

    @property
    def reason(self) -> str:
        """Why it chooses as it does, in words for people; empty if there is nothing to say."""

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read the prompt, all but its last token."""

    def choose(self, tokens: Sequence[int], room: int) -> Choice:
        """For the round behind `tokens`, prompt and answer; the answer may grow by `room` tokens, at least 1."""

    def extend(self) -> bool:
        """While the target is waited for: let the chosen method guess on; False if there is nothing to do."""

    def learn(self, result: RoundResult) -> None:
        """What came of the last choice."""


class Fixed:
    """The same method and budget in every round."""

    reason = ""

    def __init__(self, method: Method, budget: int) -> None:
        self._method = method
        self._budget = budget

    def prefill(self, tokens: Sequence[int]) -> None:
        """Hand the prompt on."""
        self._method.prefill(tokens)

    def choose(self, tokens: Sequence[int], room: int) -> Choice:
        """No deeper than the answer may grow: the last token is the target's own."""
        del tokens
        return Choice(self._method, self._budget, room - 1)

    def extend(self) -> bool:
        """Let the method guess on."""
        return self._method.extend()

    def learn(self, result: RoundResult) -> None:
        """Nothing to learn."""


class Observer(Protocol):
    """Told of every round in turn. What it does costs time, so it does nothing unless somebody looks."""

    def grown(self, tree: Callable[[], Tree]) -> None:
        """The draft has guessed on. `tree` makes the tree as it is by now, at the cost of whoever calls it."""

    def drafted(self, tree: Tree) -> None:
        """The tree has all its nodes; the target's pass comes next."""

    def verified(self, tree: Tree, logits: Tensor, path: Path) -> None:
        """The target has been asked; logits: float32 [nodes, vocabulary], gone when this returns."""


class NullObserver:
    """Nobody looks."""

    def grown(self, tree: Callable[[], Tree]) -> None:
        """Not seen."""

    def drafted(self, tree: Tree) -> None:
        """Not seen."""

    def verified(self, tree: Tree, logits: Tensor, path: Path) -> None:
        """Not seen."""
