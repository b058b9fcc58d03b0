"""How well a tree can be read in its room, as numbers."""

from dataclasses import dataclass

import numpy as np
from PySide6.QtGui import QFont, QFontInfo

from app.tree.picture.lettering import Lettering
from app.tree.picture.picture import Box, Picture

SECTIONS = 8
"""The view is divided into 8 x 8 sections; one is used where a chip or band lies in it, be it in part."""


@dataclass(frozen=True, slots=True)
class Readability:
    """Of one picture, as the view shows it at first.

    `seen`: share of the drafted nodes that are whole in view. `is_path_whole`: whether the accepted path and the bonus
    token are, all of them. `overlaps`: pairs of chips that touch. `box`: share of the view's area that the rectangle
    around all chips in view takes. `sections`: share of the view's 8 x 8 sections that are used, which empty corners
    and edges without chips lower. `pixels`: height of the smallest letters, those of the counts.
    """

    seen: float
    is_path_whole: bool
    overlaps: int
    box: float
    sections: float
    pixels: float


def readability(picture: Picture, letters: Lettering) -> Readability:
    """Measure a picture."""
    home, (width, height) = picture.home(), picture.view
    places = {node: _moved(picture.chip(node), -home.x, -home.y) for node in {*picture.nodes(), *picture.path}}
    inside = {node: box for node, box in places.items() if _is_inside(box, width, height)}
    drafted = [node for node in inside if node > 0]
    taken = np.array([[box.x, box.y, box.x + box.width, box.y + box.height] for box in inside.values()] or [[0.0] * 4])
    left, top, right, bottom = taken[:, 0].min(), taken[:, 1].min(), taken[:, 2].max(), taken[:, 3].max()
    grid = getattr(picture, "grid", None)
    return Readability(
        seen=len(drafted) / max(1, picture.tree.drafted),
        is_path_whole=set(picture.path) <= set(inside),
        overlaps=overlaps(list(places.values())),
        box=float((right - left) * (bottom - top)) / (width * height),
        sections=_sections(taken, width, height),
        pixels=_pixels(letters.small if grid else letters.plain) * (grid.scale if grid else 1.0),
    )


def overlaps(boxes: list[Box]) -> int:
    """How many pairs share an area, of more than rounding."""
    left, top, width, height = np.array(boxes).T
    right, bottom = left + width - 0.01, top + height - 0.01
    across = (left[:, None] < right) & (left < right[:, None])
    along = (top[:, None] < bottom) & (top < bottom[:, None])
    return int((across & along).sum() - len(boxes)) // 2


def _sections(taken: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", width: float, height: float) -> float:
    used = np.zeros((SECTIONS, SECTIONS), bool)
    cells = taken / np.array([width, height, width, height]) * SECTIONS
    for left, top, right, bottom in cells.tolist():
        used[int(max(0, top)) : int(np.ceil(bottom)), int(max(0, left)) : int(np.ceil(right))] = True
    return float(used.mean())


def _pixels(font: QFont) -> float:
    return float(QFontInfo(font).pixelSize())


def _moved(box: Box, x: float, y: float) -> Box:
    return box._replace(x=box.x + x, y=box.y + y)


def _is_inside(box: Box, width: float, height: float) -> bool:
    return min(box.x, box.y) >= -0.5 and box.x + box.width <= width + 0.5 and box.y + box.height <= height + 0.5
