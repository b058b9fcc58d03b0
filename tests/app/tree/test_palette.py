"""Every theme gives tree and charts colours that are legible, and kinds of chip that stay apart for all eyes."""

from dataclasses import astuple
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from PySide6.QtCore import Qt

from app.tree.picture.styles import ACCEPTED, AHEAD, BOLD_STYLES, BONUS, EDGE_WIDTHS, REJECTED, STEPS, edge, outline
from app.ui.colors import DARK, DARK_CONTRAST, LIGHT, LIGHT_CONTRAST, Colors, TreeColors

THEMES = {"dark": DARK, "light": LIGHT, "dark contrast": DARK_CONTRAST, "light contrast": LIGHT_CONTRAST}
PALETTES = pytest.mark.parametrize("palette", [each.tree for each in THEMES.values()], ids=THEMES)

# Linear RGB as dichromats see it: Viénot, Brettel and Mollon 1999 (protan, deutan); tritan after Machado et al. 2009.
VISION = {
    "full": np.eye(3),
    "protan": np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]),
    "deutan": np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]),
    "tritan": np.array([[1.25553, -0.07675, -0.17878], [-0.07841, 0.93081, 0.1476], [0.00473, 0.69137, 0.3039]]),
}


def linear(colour: str) -> NDArray[np.float64]:
    parts = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    """As in WCAG 2: from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def lab(colour: str, vision: str) -> NDArray[np.float64]:
    """CIELAB under D65."""
    rgb = np.clip(VISION[vision] @ linear(colour), 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    x, y, z = np.cbrt(np.maximum(xyz / [0.9505, 1.0, 1.089], 1e-6))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@PALETTES
def test_text_is_legible_on_every_chip(palette: TreeColors) -> None:
    for ink in (palette.root, palette.accepted, palette.bonus, palette.ahead, *palette.ramp, *palette.rejected):
        assert contrast(ink.text, ink.fill) >= 4.5
    assert contrast(palette.text, palette.background) >= 7
    assert contrast(palette.muted, palette.background) >= 4.5


@PALETTES
def test_every_edge_can_be_seen_and_likelier_ones_stand_out(palette: TreeColors) -> None:
    strengths = [contrast(ink.line, palette.background) for ink in palette.ramp]
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[-1] >= 1.7
    dimmed = [contrast(ink.line, palette.background) for ink in palette.rejected]
    assert dimmed == sorted(dimmed, reverse=True)
    assert dimmed[-1] >= 1.7
    assert dimmed[0] < strengths[0]


@PALETTES
@pytest.mark.parametrize("vision", VISION)
def test_kinds_stay_apart(palette: TreeColors, vision: str) -> None:
    kinds = (palette.accepted.line, palette.bonus.line, palette.ramp[0].line)
    for one, other in combinations(kinds, 2):
        assert np.linalg.norm(lab(one, vision) - lab(other, vision)) >= 20


@PALETTES
def test_ramp_has_an_ink_and_a_width_per_step(palette: TreeColors) -> None:
    assert len(palette.ramp) == len(palette.rejected) == len(STEPS) == len(EDGE_WIDTHS)
    assert list(EDGE_WIDTHS) == sorted(EDGE_WIDTHS, reverse=True)


@PALETTES
def test_what_became_of_a_guess_is_told_by_its_outline_too(palette: TreeColors) -> None:
    """Whoever sees no colours at all still tells the kinds apart."""
    pens = {style: outline(palette, style) for style in (0, REJECTED, AHEAD, ACCEPTED, BONUS)}
    looks = {(pen.style(), pen.widthF() if pen.style() is not Qt.PenStyle.NoPen else 0) for pen in pens.values()}
    assert len(looks) == len(pens)
    assert edge(palette, REJECTED).widthF() < edge(palette, 0).widthF() < edge(palette, ACCEPTED).widthF()
    assert {ACCEPTED, BONUS} == BOLD_STYLES


@PALETTES
def test_rejected_guesses_step_back_behind_those_that_are_not_decided(palette: TreeColors) -> None:
    for rejected, undecided in zip(palette.rejected, palette.ramp, strict=True):
        assert contrast(rejected.fill, palette.background) < contrast(undecided.fill, palette.background)
        assert contrast(rejected.line, palette.background) <= contrast(undecided.line, palette.background) * 1.05


@pytest.mark.parametrize("colors", THEMES.values(), ids=THEMES)
def test_marks_are_seen_on_their_ground(colors: Colors) -> None:
    """What the tree and the charts are read by; in high contrast unlikely and rejected guesses too."""
    tree = colors.tree
    lines = [each.line for each in (tree.root, tree.accepted, tree.bonus, tree.ahead, tree.ramp[0])]
    if colors.is_contrast:
        lines += [each.line for each in (*tree.ramp, *tree.rejected)]
    assert min(contrast(line, tree.background) for line in (*lines, *tree.tiers.values())) >= 3
    assert min(contrast(each, colors.surface) for each in astuple(colors.charts)) >= 3
    assert contrast(colors.text, colors.surface) >= 4.5
    assert contrast(colors.muted, colors.surface) >= 4.5


def test_high_contrast_is_more_than_the_usual() -> None:
    for usual, high in ((DARK, DARK_CONTRAST), (LIGHT, LIGHT_CONTRAST)):
        pairs = zip((*usual.tree.ramp, *usual.tree.rejected), (*high.tree.ramp, *high.tree.rejected), strict=True)
        for weak, strong in pairs:
            assert contrast(strong.line, high.tree.background) > contrast(weak.line, usual.tree.background)
        for weak_mark, strong_mark in zip(astuple(usual.charts), astuple(high.charts), strict=True):
            assert contrast(strong_mark, high.surface) > contrast(weak_mark, usual.surface)
