"""Sequences drawn independently: one (Leviathan et al., arXiv 2211.17192), or several (SpecInfer, arXiv 2305.09781)."""

from collections.abc import Sequence

from torch import Tensor

from engine.speculation.interfaces import TreeBounds
from engine.speculation.methods.rejection import with_replacement
from engine.speculation.methods.sampled_trees import Drafting, SampledTreeMethod
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.trees.tree_program import AcceptanceVector


class Chain(SampledTreeMethod):
    """The budget is the length of the chain, as far as the depth allows; one draft pass per node."""

    name = "chain"

    def grow(self, tokens: Sequence[int], bounds: TreeBounds) -> Tree:
        """The draft's continuation, drawn a token at a time."""
        builder = self._drafting.new_tree(tokens)
        node = 0
        for _ in range(min(bounds.budget, bounds.depth)):
            [children] = builder.branch([node], self._drafting.independent([node], [1]))
            if not children:
                break
            [node] = children
            if not builder.goes_on(node):
                break
        return builder.tree()

    def accept(self, tree: Tree, logits: Tensor, answer: Sequence[int]) -> Path:
        """As far as every token passes, then one from what the target has left."""
        return self._drafting.accept(tree, logits, answer, with_replacement)


def best_sequences(acceptance: AcceptanceVector, budget: int, most_levels: int) -> int:
    """How many sequences promise most tokens: one of k first children is accepted, then every next one like a first.

    `acceptance`: the probability that the k-th child is the accepted one; `budget`: nodes, at least 1.
    """

    def promise(sequences: int) -> float:
        levels = min(most_levels, budget // sequences)
        return sum(acceptance[:sequences]) * sum(acceptance[0] ** level for level in range(levels))

    return max(range(1, budget + 1), key=promise)


class SpecInfer(SampledTreeMethod):
    """A number of sequences, drawn from the draft independently of each other; equal beginnings are one node.

    The static expansion is <k,1,1,...>: sequences are independent from the root on. k is the number that promises most
    tokens for the budget as the draft is accepted (`best_sequences`), or, where no acceptance is given, as few as the
    depth allows. When greedy, they begin with the k likeliest tokens. Other expansions <k1,k2,...> draw k1
    children of the root, k2 of each node of the first level, and so on; they end with the expansions or the budget.
    """

    name = "specinfer"

    def __init__(self, drafting: Drafting, expansions: Sequence[int] = (), acceptance: AcceptanceVector = ()) -> None:
        """`expansions`: children by level; empty for the static one."""
        super().__init__(drafting)
        self._expansions = expansions
        self._acceptance = acceptance

    def grow(self, tokens: Sequence[int], bounds: TreeBounds) -> Tree:
        """All sequences, a level at a time."""
        if self._expansions:
            return self._branching(tokens, bounds)
        builder = self._drafting.new_tree(tokens)
        depth = min(bounds.budget, bounds.depth)
        if depth and self._acceptance:
            depth = min(depth, bounds.budget // best_sequences(self._acceptance, bounds.budget, depth))
        sequences = {0: bounds.budget // depth} if depth else {}  # node of the tree -> how many sequences go through it
        for _ in range(depth):
            nodes = list(sequences)
            if not nodes:
                break
            sampled = self._drafting.independent(nodes, list(sequences.values()))
            sequences = {
                child: said.count(builder.tokens[child])
                for said, children in zip(sampled.tokens, builder.branch(nodes, sampled), strict=True)
                for child in children
                if builder.goes_on(child)
            }
        return builder.tree()

    def _branching(self, tokens: Sequence[int], bounds: TreeBounds) -> Tree:
        """The same number of children behind every node of a level, as far as the budget allows a whole level."""
        builder, nodes, room = self._drafting.new_tree(tokens), [0], bounds.budget
        for children in self._expansions[: bounds.depth]:
            room -= children * len(nodes)
            if room < 0 or not nodes:
                break
            sampled = self._drafting.independent(nodes, [children] * len(nodes))
            nodes = [child for each in builder.branch(nodes, sampled) for child in each if builder.goes_on(child)]
        return builder.tree()

    def accept(self, tree: Tree, logits: Tensor, answer: Sequence[int]) -> Path:
        """At every node the first of its draws that passes, else a token from what the target has left."""
        return self._drafting.accept(tree, logits, answer, with_replacement)
