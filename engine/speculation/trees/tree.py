"""A speculation tree: the draft's guesses at how the text goes on, parents before children."""

from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Tree:
    """Node 0 is the root, the last committed token; `parents[0]` is -1 and a parent stands before its children.

    `log_probs` are the draft's cumulative log-probabilities, 0 at the root. `scores` are what the nodes were chosen by,
    logarithms of the chance that the target accepts them; empty where that is the draft's probability itself.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    log_probs: tuple[float, ...]
    scores: tuple[float, ...] = ()
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
