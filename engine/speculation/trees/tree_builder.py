"""A tree that grows by what was drawn behind some of its nodes at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.speculation.trees.tree import Tree


@dataclass(frozen=True, slots=True)
class SampledTokens:
    """Of some nodes the tokens that were drawn behind each, in their order, with the draft's log-probabilities.

    A token may be there twice.
    """

    tokens: tuple[tuple[int, ...], ...]
    log_probs: tuple[tuple[float, ...], ...]


class TreeBuilder:
    """Node 0 is the root, the last committed token."""

    def __init__(self, root_token: int, grown: Callable[[Callable[[], Tree]], None]) -> None:
        """`grown` is told of every growth."""
        self._grown = grown
        self.tokens = [root_token]
        self.parents = [-1]
        self._log_probs = [0.0]

    def branch(self, nodes: Sequence[int], sampled: SampledTokens) -> list[list[int]]:
        """A child for every different token that was drawn behind each of `nodes`; returns these, by first draw."""
        children: list[list[int]] = []
        for node, tokens, log_probs in zip(nodes, sampled.tokens, sampled.log_probs, strict=True):
            children.append([])
            for token, log_prob in dict(zip(tokens, log_probs, strict=True)).items():
                children[-1].append(len(self.tokens))
                self.tokens.append(token)
                self.parents.append(node)
                self._log_probs.append(self._log_probs[node] + log_prob)
        self._grown(self.tree)
        return children

    def path(self, node: int) -> list[int]:
        """The tokens behind the root, down to `node`."""
        tokens: list[int] = []
        while node > 0:
            tokens.append(self.tokens[node])
            node = self.parents[node]
        return tokens[::-1]

    def tree(self) -> Tree:
        """As it is now."""
        return Tree(tuple(self.tokens), tuple(self.parents), tuple(self._log_probs))
