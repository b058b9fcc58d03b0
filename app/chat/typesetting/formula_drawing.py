"""Draws a formula as a vector picture; what cannot be understood, or is too large to be one, is not drawn."""

import math
import re
import warnings
from dataclasses import dataclass
from html import escape
from typing import Any

INK = "#010203"  # stands for the colour of the theme in the picture

_NOMINAL = 20.0
_LONGEST = 600
_DEEPEST = 8  # levels; each doubles the time that drawing takes
_HIGHEST, _WIDEST = 40.0, 400.0  # in units of the letters' size
_LONGEST_PICTURE = 500_000
_OPENING, _CLOSING = re.compile(r"(?<!\\)\{|\\left\b|\\begin\b"), re.compile(r"(?<!\\)\}|\\right\b|\\end\b")
_ELEMENT = re.compile(r"<([^\s/>]+)")
_ELEMENTS = {"svg", "path", "rect", "line", "g"}  # none of which refers to anything outside
_BOX = re.compile(r'viewBox="(\S+) (\S+) (\S+) (\S+)"')


@dataclass(frozen=True, slots=True)
class Formula:
    """A picture with its measures in units of the letters' size: width, and height above and below the base line."""

    svg: str
    width: float
    ascent: float
    depth: float


def draw(latex: str, displayed: bool) -> Formula | None:
    """The formula's picture, or None where the text is no LaTeX that is known here. Takes milliseconds."""
    if len(latex) > _LONGEST or _depth(latex) > _DEEPEST:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library uses calls that Python means to retire
        from ziamath.config import config  # noqa: PLC0415 - a tenth of a second, for those who see a formula
        from ziamath.zmath import Latex  # noqa: PLC0415

        config.svg2 = False  # Qt draws the older kind
        try:
            drawn = Latex(_plain_ampersands(latex), size=_NOMINAL, color=INK, inline=not displayed)
            svg = str(drawn.svg())
            understood = "\\" not in str(drawn.mathmlstr())
        except Exception:  # noqa: BLE001 - the parser fails in many ways on text that is no formula
            return None
    box = _BOX.search(svg)
    if box is None or not understood:
        return None
    _left, top, width, height = (float(each) / _NOMINAL for each in box.groups())
    picture = Formula(svg, width, -top, top + height)
    return picture if _is_sound(picture) else None


def formula_of(answer: Any) -> Formula | None:
    """The formula that a process has drawn, which is believed as little as what it was drawn from."""
    match answer:
        case {"svg": str(svg), "width": float(width), "ascent": float(ascent), "depth": float(depth)}:
            picture = Formula(svg, width, ascent, depth)
            return picture if _is_sound(picture) else None
    return None


def _is_sound(picture: Formula) -> bool:
    """Whether its size is that of a formula, and it is made of lines alone."""
    sizes = (picture.width, picture.ascent, picture.depth)
    if not all(map(math.isfinite, sizes)) or not 0 < picture.width <= _WIDEST:
        return False
    is_high = max(abs(picture.ascent), abs(picture.depth)) > _HIGHEST or picture.ascent + picture.depth <= 0
    return not is_high and len(picture.svg) <= _LONGEST_PICTURE and set(_ELEMENT.findall(picture.svg)) <= _ELEMENTS


def _depth(latex: str) -> int:
    """How deep braces, fences and environments are nested in each other."""
    changes = [(each.start(), 1) for each in _OPENING.finditer(latex)]
    changes += [(each.start(), -1) for each in _CLOSING.finditer(latex)]
    deepest = depth = 0
    for _, change in sorted(changes):
        depth += change
        deepest = max(deepest, depth)
    return deepest


def _plain_ampersands(latex: str) -> str:
    """Outside of a table an ampersand is one, and the library would trip over it."""
    return latex if "\\begin" in latex else latex.replace("\\&", "&").replace("&", escape("&"))
