"""Ten recorded rounds, on which the layout of trees is judged; `tests/bench/tree_recordings.py` made them."""

from functools import cache
from pathlib import Path

from app.tree.rounds.recording import read_recording
from app.tree.rounds.snapshot import Snapshot, snapshot
from engine.protocol.messages import Round

RECORDING = Path(__file__).with_name("recordings") / "rounds.coppice"
NAMES = ("easy 16", "hard 16", "easy 64", "hard 64", "easy 256", "hard 1024", "right-to-left", "CJK", "code", "emoji")
DOCK, HALF, WINDOW = (380, 620), (720, 700), (1280, 800)
"""The sizes of the tree's view in a narrow dock, in half a window, and in a window of its own, in logical pixels."""


@cache
def recorded_rounds() -> dict[str, Round]:
    """By name."""
    return dict(zip(NAMES, read_recording(RECORDING), strict=True))


@cache
def recorded_trees() -> dict[str, Snapshot]:
    """The same as the panel sees them."""
    return {name: snapshot(each) for name, each in recorded_rounds().items()}
