"""A speculation tree: the draft's guesses at how the text goes on, parents before children; and two trees as one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

MOST_LEFT_OUT = 32


@dataclass(frozen=True)
class Tree:
    """Node 0 is the root, the last committed token; `parents[0]` is -1 and a parent stands before its children.

    `log_probs` are the draft's cumulative log-probabilities, 0 at the root. `scores` are what the nodes were chosen by,
    logarithms of the chance that the target accepts them; empty where that is the draft's probability itself.
    `left_out`: scores and depths of the likeliest nodes that were known, too, but not worth their price.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    log_probs: tuple[float, ...]
    scores: tuple[float, ...] = ()
    left_out: tuple[tuple[float, int], ...] = ()
    depths: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        depths = [0]
        for node, parent in enumerate(self.parents[1:], start=1):
            assert 0 <= parent < node, "a parent stands before its children"
            depths.append(depths[parent] + 1)
        object.__setattr__(self, "depths", tuple(depths))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def drafted(self) -> int:
        """Nodes that the draft added: all but the root."""
        return len(self.tokens) - 1

    @cached_property
    def _children(self) -> dict[tuple[int, int], int]:
        return {
            (parent, token): node for node, (parent, token) in enumerate(zip(self.parents, self.tokens, strict=True))
        }

    def child(self, node: int, token: int) -> int | None:
        """The child of `node` that carries `token`, or None."""
        return self._children.get((node, token))

    def cut(self, nodes: Sequence[int]) -> "Tree":
        """The root and these nodes alone, ascending numbers, closed under ancestors; the others are left out."""
        kept = [0, *nodes]
        number = {node: new for new, node in enumerate(kept)}
        scores = zip(self.scores or self.log_probs, self.depths, strict=True)
        cut_off = [score for node, score in enumerate(scores) if node not in number]
        return Tree(
            tokens=tuple(self.tokens[node] for node in kept),
            parents=(-1, *(number[self.parents[node]] for node in nodes)),
            log_probs=tuple(self.log_probs[node] for node in kept),
            scores=tuple(self.scores[node] for node in kept) if self.scores else (),
            left_out=tuple(sorted((*self.left_out, *cut_off), reverse=True)[:MOST_LEFT_OUT]),
        )

    def best(self, count: int) -> list[int]:
        """The nodes that score most, so many behind the root, in the order of their numbers."""
        return best_of(self.scores or self.log_probs, count)[1:]


def root_only(token: int) -> Tree:
    """The tree of a round without speculation."""
    return Tree(tokens=(token,), parents=(-1,), log_probs=(0.0,))


@dataclass(frozen=True, slots=True)
class Path:
    """What the target made of a tree: the accepted nodes, root first, and the token it added behind the last one."""

    nodes: tuple[int, ...]
    bonus: int

    def tokens(self, tree: Tree) -> tuple[int, ...]:
        """The tokens the answer grows by: those of the accepted nodes behind the root, then the bonus token."""
        return (*(tree.tokens[node] for node in self.nodes[1:]), self.bonus)

    def cut(self, tree: Tree, tokens: int) -> "Path":
        """The path that yields only its first `tokens` tokens, at least one; the last of them is its bonus token."""
        return self if tokens > len(self.nodes) - 1 else Path(self.nodes[:tokens], tree.tokens[self.nodes[tokens]])


@dataclass(frozen=True, slots=True)
class Merged:
    """`origins`: of every node of `tree` its number in the first of the two trees, None if it was not there."""

    tree: Tree
    origins: tuple[int | None, ...]

    def cut(self, nodes: Sequence[int]) -> "Merged":
        """Of these nodes alone; see `Tree.cut`."""
        return Merged(self.tree.cut(nodes), (self.origins[0], *(self.origins[node] for node in nodes)))


def merge(drafted: Tree, branches: Tree, budget: int) -> Merged:
    """The `budget` nodes with the best scores of both trees, whose roots are the same.

    A node of both has the larger of its two cumulative probabilities, and of its two scores; a branch's score is its
    probability. So a child never has more than its parent, and what is kept is closed under ancestors.
    """
    tokens, parents = list(drafted.tokens), list(drafted.parents)
    log_probs, scores = list(drafted.log_probs), list(drafted.scores or drafted.log_probs)
    place = [0]
    for node in range(1, len(branches)):
        parent, token, log_prob = place[branches.parents[node]], branches.tokens[node], branches.log_probs[node]
        same = drafted.child(parent, token)
        if same is None:
            same = len(tokens)
            tokens.append(token)
            parents.append(parent)
            log_probs.append(log_prob)
            scores.append(log_prob)
        log_probs[same], scores[same] = max(log_probs[same], log_prob), max(scores[same], log_prob)
        place.append(same)
    kept = best_of(scores, budget)
    number = {node: new for new, node in enumerate(kept)}
    tree = Tree(
        tokens=tuple(tokens[node] for node in kept),
        parents=(-1, *(number[parents[node]] for node in kept[1:])),
        log_probs=tuple(log_probs[node] for node in kept),
        scores=tuple(scores[node] for node in kept) if drafted.scores else (),
        left_out=drafted.left_out,
    )
    return Merged(tree, tuple(node if node < len(drafted) else None for node in kept))


def enlarge(tree: Tree, further: Tree) -> Tree:
    """All of `tree` with its numbers, and behind it what only `further` has below the same root."""
    tokens, parents, log_probs = list(tree.tokens), list(tree.parents), list(tree.log_probs)
    place = [0]
    for token, parent, log_prob in zip(further.tokens[1:], further.parents[1:], further.log_probs[1:], strict=True):
        above = place[parent]
        same = tree.child(above, token) if above < len(tree) else None
        if same is None:
            same = len(tokens)
            tokens.append(token)
            parents.append(above)
            log_probs.append(log_prob)
        place.append(same)
    return Tree(tuple(tokens), tuple(parents), tuple(log_probs))


def best_of(scores: Sequence[float], budget: int) -> list[int]:
    """The root and the `budget` best nodes, in the order of their numbers.

    The sort is stable and a parent has the smaller number: it stays ahead of a child that scores as much.
    """
    ranked = sorted(range(1, len(scores)), key=lambda node: -scores[node])
    return [0, *sorted(ranked[:budget])]
