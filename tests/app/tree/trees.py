"""Realistic rounds for tests and benchmarks: best-first trees over a made-up draft, verified by a made-up target."""

import heapq
import math
from array import array
from random import Random

from engine.protocol.messages import Round, Seconds, Tree

WORDS = (
    *(" the", " of", " and", " to", " in", " a", " is", " that", " it", " was", " for", " on", " with", " as", " be"),
    *(",", ".", ";", ":", " (", ")", "\n", "\n\n", "\t", " =", "==", "()", "[0]", "'s", "n't", "-", " —", "…"),
    *(" speculation", " verification", " university", " probability", " internationalisation", "ing", "ed", "s", "ly"),
    *(" would", " could", " there", " where", " been", " some", " other", " many", " first", " made", " used", " time"),
    *(
        " model",
        " draft",
        " target",
        " token",
        " answer",
        " because",
        " which",
        " has",
        " one",
        " can",
        " not",
        " they",
    ),
)
ODDITIES = (*(" Bäume", " forêt", "木", "漢字", " дерево", " شجرة", "🌳", "\ufffd", "\u0301", "\u202e", "\x00", ""),)
TEXTS = (*WORDS * 4, *ODDITIES)


def random_round(nodes: int, seed: int = 0, *, agreement: float = 0.8, sharpness: float = 1.6, index: int = 0) -> Round:
    """A round over a tree of `nodes` drafted nodes: those a draft finds most probable, in the order it finds them.

    `agreement` is the chance that the target takes one of a node's children, `sharpness` how sure the draft is.
    """
    random = Random(seed)
    tokens, parents, log_probs = [random.randrange(len(TEXTS))], [-1], [0.0]
    frontier = _children(random, 0, 0.0, sharpness)
    heapq.heapify(frontier)
    while len(tokens) <= nodes:
        cost, _, parent, token = heapq.heappop(frontier)
        tokens.append(token)
        parents.append(parent)
        log_probs.append(-cost)
        for candidate in _children(random, len(tokens) - 1, -cost, sharpness):
            heapq.heappush(frontier, candidate)
    accepted = _accepted(random, parents, log_probs, agreement)
    missed = {token for token, parent in zip(tokens, parents, strict=True) if parent == accepted[-1]}
    bonus = random.choice([token for token in range(len(TEXTS)) if token not in missed])
    return round_of(tokens, parents, log_probs, accepted, bonus=bonus, index=index)


def round_of(
    tokens: list[int],
    parents: list[int],
    log_probs: list[float],
    accepted: tuple[int, ...],
    *,
    bonus: int = 0,
    index: int = 0,
    pieces: tuple[str, ...] | None = None,
    bonus_piece: str | None = None,
) -> Round:
    """A round with the arrays packed as the engine packs them; texts come from `TEXTS` unless they are given."""
    tree = Tree(
        tokens=array("i", tokens).tobytes(),
        parents=array("i", parents).tobytes(),
        log_probs=array("f", log_probs).tobytes(),
        pieces=pieces or tuple(TEXTS[token % len(TEXTS)] for token in tokens),
    )
    return Round(
        id=1,
        index=index,
        tree=tree,
        accepted=accepted,
        bonus=bonus,
        bonus_piece=TEXTS[bonus % len(TEXTS)] if bonus_piece is None else bonus_piece,
        new_tokens=len(accepted),
        text="",
        seconds=Seconds(),
    )


def _children(random: Random, parent: int, log_prob: float, sharpness: float) -> list[tuple[float, int, int, int]]:
    """Eight candidates behind a node, with the flat and peaked distributions that language models have in turn."""
    peak = random.uniform(0.3, 2 * sharpness)
    weights = sorted((random.random() ** 2 * math.exp(-peak * rank) for rank in range(8)), reverse=True)
    total = sum(weights) * random.uniform(1.0, 1.4)
    tokens = random.sample(range(len(TEXTS)), 8)
    return [
        (-log_prob - math.log(weight / total), parent, parent, token)
        for weight, token in zip(weights, tokens, strict=True)
        if weight > 0
    ]


def _accepted(random: Random, parents: list[int], log_probs: list[float], agreement: float) -> tuple[int, ...]:
    path = [0]
    while random.random() < agreement:
        children = [node for node, parent in enumerate(parents) if parent == path[-1]]
        if not children:
            break
        path.append(random.choices(children, [math.exp(log_probs[node] - log_probs[path[-1]]) for node in children])[0])
    return tuple(path)
