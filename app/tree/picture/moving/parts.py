"""The parts of a verified tree's picture that appear one after the other: its guesses, the path, and all of it."""

from dataclasses import replace
from enum import Enum

from app.tree.rounds.snapshot import Snapshot, partial


class Part(Enum):
    """What of a picture is painted, everything in its place."""

    GUESSES = "guesses"
    """As before the target's pass: nothing is accepted or rejected, and there is no bonus token."""

    PATH = "path"
    """The root, the accepted tokens and the bonus token alone."""

    WHOLE = "whole"


def guesses(tree: Snapshot) -> Snapshot:
    """A verified tree as it was while the target checked it."""
    whole = partial(tree, len(tree.pieces))
    return replace(whole, checking=len(tree.pieces))
