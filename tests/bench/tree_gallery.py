"""Pictures of the whole window with trees of several sizes, in both themes, both views, at 100 % and 200 % scale.

xvfb-run -s '-screen 0 2700x1700x24' python -m tests.bench.tree_gallery --to FOLDER [--nodes 16,64,256,1024]

No engine: rounds are made up. Each scale has a process of its own, as Qt reads it once.
"""

import argparse
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from app.main import build_application
from app.shell.window import MainWindow
from app.tree.picture.canvas import WAYS, TreeCanvas
from app.ui.theme import Theme
from tests.app.tree.test_history import judged
from tests.bench.gallery import THEMES, link_of, opened

SETTLED_MS = 700
_SCALE = "QT_SCALE_FACTOR"


def main() -> None:
    """Take them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument(
        "--nodes", type=lambda text: [int(part) for part in text.split(",")], default=[16, 64, 256, 1024]
    )
    parser.add_argument("--scales", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2])
    parser.add_argument("--tree-width", type=int, default=700)
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    if _SCALE not in os.environ:
        for scale in options.scales:
            again = [sys.executable, "-m", "tests.bench.tree_gallery", *sys.argv[1:]]
            subprocess.run(again, check=True, env={**os.environ, _SCALE: str(scale)})
        return
    theme = Theme(build_application())
    for kind in ("light", "dark"):
        for nodes in options.nodes:
            with opened(theme, THEMES[kind]) as window:
                _show(window, nodes, options.tree_width)
                for way in WAYS:
                    window.tree_panel.set_way(way)
                    QTest.qWait(SETTLED_MS)
                    name = f"{way}-{nodes:04}-{kind}-{os.environ[_SCALE]}00.png"
                    window.grab().save(str(options.to / name))


def _show(window: MainWindow, nodes: int, width: int) -> None:
    """An answer of some rounds, the newest of which is shown."""
    window.resizeDocks([window.tree_dock], [width], Qt.Orientation.Horizontal)
    window.chat.ask("What was there to be seen?")
    link = link_of(window)
    request = link.last_question.id
    for index in range(4):
        made = judged(nodes, seed=nodes + index)
        link.answer(replace(made, id=request, index=index, text="The old harbour lay *quiet* under the fog. "))
    link.finish()
    QTest.mouseMove(window.findChildren(TreeCanvas)[0].viewport(), QPoint(1, 1))


if __name__ == "__main__":
    main()
