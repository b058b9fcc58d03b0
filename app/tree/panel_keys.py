"""The keys of the tree panel, and what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tree.picture.canvas import CHIPS, ICICLE, ZOOM_STEP, TreeCanvas
from app.tree.picture.picture import Way
from app.tree.widgets import bind

if TYPE_CHECKING:
    from app.tree.panel import TreePanel


def bind_keys(panel: TreePanel, canvas: TreeCanvas) -> None:
    """Give the panel its keys, and its canvas those that buttons and sliders use too."""
    player = panel.player
    in_panel = {
        "1": lambda: panel.choose_way(CHIPS),
        "2": lambda: panel.choose_way(ICICLE),
        "F": canvas.fit,
        "+": lambda: canvas.zoom_by(ZOOM_STEP),
        "-": lambda: canvas.zoom_by(1 / ZOOM_STEP),
        ",": lambda: player.step(-1),
        ".": lambda: player.step(1),
        "L": player.go_live,
        "E": panel.explain,
        "A": panel.show_in_answer,
    }
    in_tree = {
        "Home": canvas.show_root,
        "End": canvas.show_bonus,
        "Left": lambda: canvas.pick(Way.PARENT),
        "Right": lambda: canvas.pick(Way.CHILD),
        "Up": lambda: canvas.pick(Way.UP),
        "Down": lambda: canvas.pick(Way.DOWN),
        "Space": player.toggle,
        "Return": panel.branching.offer_picked,
    }
    bind(in_panel, panel)
    bind(in_tree, canvas)
