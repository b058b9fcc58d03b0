"""One round told slowly, for whoever sees speculation for the first time: a sentence and a picture for each step."""

from dataclasses import dataclass

import numpy as np

from app.tree.growth import stages
from app.tree.pieces import visible
from app.tree.snapshot import Snapshot, partial


@dataclass(frozen=True, slots=True)
class Step:
    """What is said, and the tree as it is then."""

    sentence: str
    tree: Snapshot


def lesson(tree: Snapshot) -> tuple[Step, ...]:
    """The steps of a verified round, from its root to what the answer has grown by."""
    root = _quoted(tree, 0)
    what = "A model writes token by token: a word, or a piece of one; ‘·’ is a space."
    steps = [Step(f"{what} The answer so far ends with {root}. What comes next?", partial(tree, 1))]
    if tree.drafted:
        steps += _guesses(tree)
        steps.append(
            Step(
                f"Now the target, the model that counts, checks all {_tokens(tree.drafted)} at once. "
                "One pass over them takes hardly longer than one pass over a single token.",
                partial(tree, len(tree.pieces)),
            )
        )
        steps += _acceptance(tree)
    bonus = f"‘{visible(tree.bonus_piece, tree.bonus)}’"
    steps.append(Step(f"{_where(tree)} the target says {bonus} of its own: the bonus, from the same pass.", tree))
    steps.append(Step(_sum(tree), tree))
    return tuple(steps)


def _sum(tree: Snapshot) -> str:
    """What the round gave, and what it would have taken otherwise."""
    count = len(tree.accepted)
    parts = [f"The answer has grown by {_tokens(count)} in one pass."]
    if count > 1:
        parts.append(f"Token by token, that would have taken {count} passes.")
    if tree.drafted:
        parts.append("The other guesses are cut, and it starts anew.")
    return " ".join(parts)


def _where(tree: Snapshot) -> str:
    if not tree.drafted:
        return "Nothing was guessed, so"
    return "Where no guess fits," if (tree.parents == tree.tip).any() else "Behind the last guess"


def _guesses(tree: Snapshot) -> list[Step]:
    ends = stages(tree.parents.tolist())[1:]
    first, last = ends[0], len(tree.pieces)
    best = _quoted(tree, 1)
    steps = [
        Step(
            f"The draft, a small and fast model, guesses {best}{_others(first - 2)}.",
            partial(tree, first),
        )
    ]
    middle = ends[1:-1][:: max(1, len(ends) // 3)]
    for place, end in enumerate(middle):
        says = f"By now it has {_tokens(end - 1)}." if place else "The likelier, the sooner: so it becomes a tree."
        steps.append(Step(f"It guesses on behind its likeliest guesses, several at a time. {says}", partial(tree, end)))
    if len(ends) > 1:
        steps.append(Step(f"Now it has {_tokens(last - 1)}, up to {tree.depth} deep.", partial(tree, last)))
    return steps


def _acceptance(tree: Snapshot) -> list[Step]:
    count = len(tree.pieces)
    steps = []
    for place, node in enumerate(tree.accepted[1:], start=1):
        says = "The target says" if place == 1 else "Behind that it says"
        sentence = f"{says} {_quoted(tree, node)}, which was guessed: accepted.{_beside(tree, node)}"
        steps.append(Step(sentence, partial(tree, count, place)))
    nothing = "None of the first guesses is what the target says next: no token is accepted."
    return steps or [Step(nothing, partial(tree, count))]


def _beside(tree: Snapshot, node: int) -> str:
    """What becomes of the guesses that stood in the same place."""
    others = np.flatnonzero(tree.parents == tree.parents[node])
    others = others[others != node]
    if not len(others):
        return ""
    if len(others) == 1:
        return f" {_quoted(tree, int(others[0]))} is out, with all behind it."
    return f" {_quoted(tree, int(others[0]))} and the other guesses here are out, with all behind them."


def _others(count: int) -> str:
    return "" if not count else " and one more" if count == 1 else f" and {count} others"


def _quoted(tree: Snapshot, node: int) -> str:
    return f"‘{visible(tree.pieces[node], int(tree.tokens[node]))}’"


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count:,} tokens"
