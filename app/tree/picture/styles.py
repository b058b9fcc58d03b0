"""The styles of nodes, by what became of them and how likely they are: their colours and pens."""

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPen

from app.tree.rounds.snapshot import Snapshot
from app.ui.colors import Ink, TreeColors

STEPS = (0.5, 0.2, 0.05, 0.01, 0.0)
"""The least path probability of each step of the ramp."""

EDGE_WIDTHS = (2.6, 2.1, 1.6, 1.2, 0.9)
"""Logical pixels, one per step of the ramp."""

ROOT, ACCEPTED, BONUS, AHEAD = range(len(STEPS), len(STEPS) + 4)
"""Styles beside the steps of the ramp, which are those of guesses that are not decided yet."""

REJECTED = AHEAD + 1
"""The first of the styles of guesses that were not accepted, a step each."""

STYLES = (AHEAD, *reversed(range(REJECTED, REJECTED + len(STEPS))), *reversed(range(len(STEPS))), ROOT, ACCEPTED, BONUS)
"""All, in the order of painting: the unlikely first, the path last."""


_OUTLINES = {ROOT: 1.0, ACCEPTED: 1.6, BONUS: 1.6, AHEAD: 1.0}  # logical pixels
_UNDECIDED = 1.0  # around guesses; what was rejected has no outline
_PATH_EDGES = {ROOT: 3.6, ACCEPTED: 3.6, BONUS: 2.2}
_THINNER = 0.6  # of the edges to what was rejected
_LINES = {BONUS: Qt.PenStyle.DashLine, AHEAD: Qt.PenStyle.DotLine}
_MARK = 2.5

PATH_STYLES = frozenset(_PATH_EDGES)
"""Root, accepted and bonus: what is never left out."""

BOLD_STYLES = frozenset((ACCEPTED, BONUS))


def node_styles(tree: Snapshot) -> NDArray[np.intp]:
    """Per node: what became of it; where it was not accepted, or is not decided yet, the step of its probability."""
    least = -np.log(STEPS[:-1])
    steps = np.searchsorted(least, -tree.log_probs)
    if tree.is_verified:
        steps += REJECTED
    elif tree.checking:
        steps[tree.checking :] = AHEAD
    steps[list(tree.accepted)] = ACCEPTED
    steps[0] = ROOT
    return steps


def ink(colors: TreeColors, style: int) -> Ink:
    """The colours of a style."""
    if style >= REJECTED:
        return colors.rejected[style - REJECTED]
    others = {ROOT: colors.root, ACCEPTED: colors.accepted, BONUS: colors.bonus, AHEAD: colors.ahead}
    return others.get(style) or colors.ramp[style]


def edge(colors: TreeColors, style: int) -> QPen:
    """The line that leads to a chip."""
    if style in PATH_STYLES:
        width = _PATH_EDGES[style]
    elif style >= REJECTED:
        width = EDGE_WIDTHS[style - REJECTED] * _THINNER
    else:
        width = EDGE_WIDTHS[-1] if style == AHEAD else EDGE_WIDTHS[style]
    pen = QPen(QColor(ink(colors, style).line), width)
    if style == AHEAD:
        pen.setStyle(Qt.PenStyle.DotLine)
    return pen


def outline(colors: TreeColors, style: int) -> QPen:
    """The line around a chip: the bonus token's is dashed, that of guesses for later dotted; none of a rejected one."""
    if style >= REJECTED:
        return QPen(Qt.PenStyle.NoPen)
    pen = QPen(QColor(ink(colors, style).line), _OUTLINES.get(style, _UNDECIDED))
    pen.setStyle(_LINES.get(style, Qt.PenStyle.SolidLine))
    return pen


def mark(colors: TreeColors) -> QPen:
    """The line around the chip that is being looked at."""
    return QPen(QColor(colors.text), _MARK)
