"""Draws a formula as a vector picture; what cannot be understood is not drawn."""

import re
import warnings
from dataclasses import dataclass
from html import escape

INK = "#010203"  # stands for the colour of the theme in the picture

_NOMINAL = 20.0
_LONGEST = 600
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
    if len(latex) > _LONGEST:
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
    return Formula(svg, width, -top, top + height)


def _plain_ampersands(latex: str) -> str:
    """Outside of a table an ampersand is one, and the library would trip over it."""
    return latex if "\\begin" in latex else latex.replace("\\&", "&").replace("&", escape("&"))
