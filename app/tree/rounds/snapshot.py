"""A round as the tree panel sees it: checked once, then only read."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.i18n.translation import tr
from engine.protocol.messages import Round, Seconds
from engine.protocol.watching import Drafted, TargetLogProbs, Tree


class MalformedTreeError(ValueError):
    """The arrays of a round do not describe a tree; the message says what is wrong with them."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One verified tree. Node 0 is the root, the last committed token; a parent stands before its children.

    `tokens`, `parents` and `depths` are int32 [nodes], `log_probs` is float32 [nodes] and cumulative. `accepted` is the
    accepted path, root first; the bonus token hangs behind its last node, if the tree `has_bonus`: where an answer ends
    with a guess, that is accepted and nothing is behind it. `number` counts the answer's rounds from 1.
    As long as the target has not verified it all, `is_verified` and `has_bonus` are False and `accepted` ends where it
    has got to; so many of its first nodes as `checking` says are being verified, 0 while the draft is still at work on
    these.
    `target_log_probs` and `ranks` [nodes + 1] are what the target thinks of every node behind its parent, and last of
    the bonus token; None where they were not asked for. `silent`: as in `engine.protocol.watching.Tree`.
    """

    number: int
    tokens: NDArray[np.int32]
    parents: NDArray[np.int32]
    log_probs: NDArray[np.float32]
    depths: NDArray[np.int32]
    pieces: tuple[str, ...]
    accepted: tuple[int, ...]
    bonus: int
    bonus_piece: str
    new_tokens: int
    has_bonus: bool = True
    is_verified: bool = True
    checking: int = 0
    target_log_probs: NDArray[np.float32] | None = None
    ranks: NDArray[np.int32] | None = None
    silent: tuple[int, ...] | None = None

    @property
    def drafted(self) -> int:
        """Nodes that the draft added: all but the root."""
        return len(self.pieces) - 1

    @property
    def depth(self) -> int:
        """Tokens of the longest guess, the root not counted."""
        return int(self.depths.max())

    @property
    def tip(self) -> int:
        """The last accepted node, behind which the bonus token stands, if there is one."""
        return self.accepted[-1]

    def path_probability(self, node: int) -> float:
        """How likely the draft found everything from the root to `node` together."""
        return float(np.exp(self.log_probs[node]))

    def draft_probability(self, node: int) -> float:
        """How likely the draft found `node` behind its parent; 1 for the root."""
        if node == 0:
            return 1.0
        parent = self.log_probs[self.parents[node]]
        return 0.0 if np.isneginf(parent) else float(np.exp(self.log_probs[node] - parent))


def snapshot(of: Round) -> Snapshot:
    """Decode and check a round. Raises `MalformedTreeError`."""
    tree = of.tree
    tokens = _array(tree.tokens, np.dtype("<i4"), "tokens")
    parents = _array(tree.parents, np.dtype("<i4"), "parents")
    log_probs = _array(tree.log_probs, np.dtype("<f4"), "probabilities")
    _check_tree(tree, tokens, parents, log_probs)
    _check_path(of.accepted, parents)
    last = _last_guess(tokens, parents, of.accepted[-1], of.bonus)
    return Snapshot(
        number=of.index + 1,
        tokens=tokens,
        parents=parents,
        log_probs=log_probs,
        depths=_depths(parents),
        pieces=tree.pieces,
        accepted=(*of.accepted, *last),
        has_bonus=not last,
        bonus=of.bonus,
        bonus_piece=of.bonus_piece,
        new_tokens=of.new_tokens,
        silent=tree.silent,
        **_target_scores(of.verdicts, len(tokens) + 1),
    )


def unverified(of: Drafted) -> Snapshot:
    """Decode and check a tree that the target has yet to verify. Raises `MalformedTreeError`."""
    no_tokens = {"bonus": -1, "bonus_piece": "", "new_tokens": 0, "text": "", "seconds": Seconds()}
    grown = snapshot(Round(id=of.id, index=of.index, tree=of.tree, accepted=(0,), **no_tokens))  # type: ignore[arg-type]
    if not 0 <= of.checking <= len(grown.pieces):
        raise MalformedTreeError(f"{of.checking} of its {len(grown.pieces)} nodes are being verified")
    return replace(grown, has_bonus=False, is_verified=False, checking=of.checking)


def ends_with_a_guess(of: Round) -> bool:
    """Whether the answer ended with a token that was guessed; the round counts it as its bonus token all the same.

    False where the tree is damaged.
    """
    size = np.dtype("<i4").itemsize
    if not of.accepted or len(of.tree.tokens) != len(of.tree.parents) or len(of.tree.tokens) % size:
        return False
    tokens, parents = (np.frombuffer(part, np.dtype("<i4")) for part in (of.tree.tokens, of.tree.parents))
    return bool(_last_guess(tokens, parents, of.accepted[-1], of.bonus))


def partial(tree: Snapshot, nodes: int, accepted: int = 0) -> Snapshot:
    """The tree as it was with its first `nodes` nodes, verified up to `accepted` tokens behind the root."""
    assert 1 <= nodes <= len(tree.pieces), "there is a root, and no more than all"
    return replace(
        tree,
        tokens=tree.tokens[:nodes],
        parents=tree.parents[:nodes],
        log_probs=tree.log_probs[:nodes],
        depths=tree.depths[:nodes],
        pieces=tree.pieces[:nodes],
        accepted=tree.accepted[: accepted + 1],
        has_bonus=False,
        is_verified=False,
        target_log_probs=None,
        ranks=None,
    )


def same_node(old: Snapshot | None, node: int | None, new: Snapshot | None) -> int | None:
    """The node of another tree of the same round that stands for the same tokens from the root on; None: none does."""
    if old is None or new is None or node is None or old.number != new.number:
        return None
    path: list[int] = []
    while node > 0:
        path.append(int(old.tokens[node]))
        node = int(old.parents[node])
    place = node  # the root, or the bonus token, which only verified trees have
    for token in reversed(path):
        below = np.flatnonzero((new.parents == place) & (new.tokens == token))
        if not len(below):
            return None
        place = int(below[0])
    return place if place >= 0 or new.has_bonus else None


def _last_guess(tokens: NDArray[Any], parents: NDArray[Any], tip: int, bonus: int) -> list[int]:
    """The child of the last accepted node that is the bonus token: only where the answer ended there is there one.

    Elsewhere the target says something else than what was guessed, or it would have been accepted.
    """
    found: list[int] = np.flatnonzero((parents == tip) & (tokens == bonus))[:1].tolist()
    return found


def _target_scores(given: TargetLogProbs | None, count: int) -> dict[str, Any]:
    if given is None:
        return {}
    log_probs = _array(given.log_probs, np.dtype("<f4"), "target's probabilities")
    ranks = _array(given.ranks, np.dtype("<i4"), "target's ranks")
    if not len(log_probs) == len(ranks) == count:
        raise MalformedTreeError(f"the target's verdicts are {len(log_probs)} and {len(ranks)}, not {count}")
    return {"target_log_probs": log_probs, "ranks": ranks}


def _array(data: bytes, kind: "np.dtype[Any]", what: str) -> NDArray[Any]:
    if len(data) % kind.itemsize:
        raise MalformedTreeError(f"the {what} end in the middle of a number")
    return np.frombuffer(data, kind)


def _check_tree(tree: Tree, tokens: NDArray[Any], parents: NDArray[Any], log_probs: NDArray[Any]) -> None:
    if not len(tokens):
        raise MalformedTreeError(tr("it has no nodes, not even the root"))
    if not len(tokens) == len(parents) == len(log_probs) == len(tree.pieces):
        words = tr("it has {tokens} tokens, {parents} parents, {probabilities} probabilities and {texts} texts")
        counts = {"tokens": len(tokens), "parents": len(parents), "probabilities": len(log_probs)}
        raise MalformedTreeError(words.format(**counts, texts=len(tree.pieces)))
    if parents[0] != -1 or (parents[1:] < 0).any() or (parents[1:] >= np.arange(1, len(parents))).any():
        raise MalformedTreeError(tr("a node stands before its parent"))
    if np.isnan(log_probs).any() or np.isposinf(log_probs).any():
        raise MalformedTreeError(tr("a probability is not a number"))


def _check_path(accepted: tuple[int, ...], parents: NDArray[Any]) -> None:
    if not accepted or accepted[0] != 0:
        raise MalformedTreeError(tr("the accepted path does not begin at the root"))
    for parent, node in pairwise(accepted):
        if not 0 < node < len(parents) or parents[node] != parent:
            words = tr("the accepted path does not lead from node {parent} to node {node}")
            raise MalformedTreeError(words.format(parent=parent, node=node))


def _depths(parents: NDArray[np.int32]) -> NDArray[np.int32]:
    depths = [0]
    for parent in parents[1:].tolist():
        depths.append(depths[parent] + 1)
    return np.array(depths, np.int32)
