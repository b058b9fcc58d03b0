"""How ten recorded rounds fill the tree panel at three sizes, in both views: a table, and pictures.

python -m tests.bench.tree_rooms [--repeats 7] [--pictures FOLDER [--themes dark,light,contrast]]

The columns: nodes that are whole in view, whether the accepted path is, pairs of chips that overlap, the share of the
view that the rectangle around all chips takes and that of its 8 x 8 sections with a chip in them, the smallest letters
in pixels, and milliseconds of this thread for one update: decode, lay out and paint (median).
"""

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QPainter, QPixmap
from PySide6.QtWidgets import QApplication

from app.tree.picture.canvas import WAYS, TreeCanvas
from app.tree.picture.lettering import Lettering
from app.tree.rounds.snapshot import snapshot
from app.ui.colors import DARK, DARK_CONTRAST, LIGHT, Colors
from engine.protocol.messages import Round
from tests.app.tree.readability import Readability, readability
from tests.app.tree.recorded import DOCK, HALF, WINDOW, recorded_rounds

ROOMS = {"dock": DOCK, "half": HALF, "window": WINDOW}
THEMES = {"dark": DARK, "light": LIGHT, "contrast": DARK_CONTRAST}
_COLUMNS = ("round", "room", "view", "seen", "path", "overlaps", "box", "sections", "letters", "ms")


def main() -> None:
    """Print a line per round, room and view; write the pictures if they are wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--themes", type=lambda text: text.split(","), default=list(THEMES)[:1])
    options = parser.parse_args()
    application = QApplication.instance() or QApplication([])
    assert isinstance(application, QApplication), "no other kind was made"
    print(f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}")
    for room, size in ROOMS.items():
        for way in WAYS:
            canvas = opened(application, size, way, DARK)
            for name, found, milliseconds in measured(canvas, options.repeats):
                print(_line(name, f"{room} {size[0]} x {size[1]}", way, found, milliseconds))
    if options.pictures:
        for theme in options.themes:
            write_pictures(application, options.pictures, theme)


def opened(application: QApplication, size: tuple[int, int], way: str, colors: Colors) -> TreeCanvas:
    """A view of this size."""
    canvas = TreeCanvas(colors.tree)
    canvas.resize(*size)
    canvas.set_way(way)
    canvas.show()
    application.processEvents()
    return canvas


def measured(canvas: TreeCanvas, repeats: int) -> Iterator[tuple[str, Readability, float]]:
    """Every round as it is first shown."""
    letters = Lettering(canvas.font())
    for name, recorded in recorded_rounds().items():
        milliseconds = statistics.median([_update(canvas, recorded) for _ in range(repeats)])
        assert canvas.picture, "there is a tree"
        yield name, readability(canvas.picture, letters), milliseconds


def _update(canvas: TreeCanvas, newest: Round) -> float:
    canvas.show_tree(None)
    begin = time.thread_time()
    canvas.show_tree(snapshot(newest))
    canvas.viewport().repaint()
    return (time.thread_time() - begin) * 1000


def _line(name: str, room: str, way: str, found: Readability, milliseconds: float) -> str:
    shares = f"{found.seen:.0%} | {'whole' if found.is_path_whole else 'cut'} | {found.overlaps} | {found.box:.0%}"
    return f"| {name} | {room} | {way} | {shares} | {found.sections:.0%} | {found.pixels:.1f} | {milliseconds:.1f} |"


def write_pictures(application: QApplication, folder: Path, theme: str) -> None:
    """One of every round in each room and view, and a sheet of every room and view."""
    folder.mkdir(parents=True, exist_ok=True)
    for room, size in ROOMS.items():
        for way in WAYS:
            canvas = opened(application, size, way, THEMES[theme])
            taken = []
            for name, recorded in recorded_rounds().items():
                canvas.show_tree(None)
                canvas.show_tree(snapshot(recorded))
                application.processEvents()
                taken.append(canvas.grab())
                taken[-1].save(str(folder / f"{theme}-{room}-{way}-{name.replace(' ', '-')}.png"))
            _sheet(taken, 5 if room == "dock" else 2).save(str(folder / f"sheet-{theme}-{room}-{way}.png"))


def _sheet(pictures: list[QPixmap], columns: int) -> QPixmap:
    width, height, rows = pictures[0].width() + 8, pictures[0].height() + 8, -(-len(pictures) // columns)
    sheet = QPixmap(width * columns, height * rows)
    sheet.fill(QColor(Qt.GlobalColor.magenta))
    painter = QPainter(sheet)
    for place, picture in enumerate(pictures):
        painter.drawPixmap(QPoint(place % columns * width + 4, place // columns * height + 4), picture)
    painter.end()
    return sheet


if __name__ == "__main__":
    main()
