"""Who speculates on the next tokens, and how big and deep the tree may grow: decided before every round."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.speculation.method import Method
from engine.speculation.price import Price
from engine.speculation.trees.tree import Path, Tree


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
