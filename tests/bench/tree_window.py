"""How many trees a second the whole window shows while an answer streams beside them, and how long it is deaf at most.

python -m tests.bench.tree_window --nodes 64,256,1024 [--views chips,icicle] [--seconds 8] [--json]

No engine: rounds come at `--rounds` a second from a timer, each with its text, as if a pair were that fast. Goals: at
least 30 trees a second, and no gap of a 16 ms timer above 50 ms.
"""

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, Qt, QTimer

from app.main import build_application
from app.settings.store import SettingsFile
from app.shell.window import MainWindow
from app.shell.wiring import connected_window
from app.system.paths import folders_below
from app.tree.picture.canvas import CHIPS, ICICLE, TreeCanvas
from app.ui.theme import Theme
from engine.protocol.options import LoadOptions
from tests.app.fake_link import FakeLink
from tests.app.tree.trees import random_round
from tests.bench.ui_gap import Gaps

WIDTH, HEIGHT = 1600, 900
TREE_WIDTH = 1000
_BUILDING = 2.0  # seconds in which the window reads and makes what its first picture does not need
_DIFFERENT = 40  # rounds that are made beforehand: making them must not be part of what is measured
_LINE = (
    "{view:>7}, {nodes:>5} nodes: {updates_per_second:5.1f} trees a second of {rounds_per_second:5.1f} rounds; gaps: "
    "longest {longest_gap_ms:5.1f} ms, p99 {p99_gap_ms:5.1f} ms; {processor:.2f} of a core"
)
_WORDS = "The old harbour lay *quiet* under the fog, and nobody had counted the **boats**. "


def main() -> None:
    """Measure every tree size asked for, in each view, and print."""
    arguments = _parse()
    application = build_application()
    with tempfile.TemporaryDirectory() as folder:
        folders = folders_below(Path(folder))
        folders.create()
        link = FakeLink()
        settings = SettingsFile(folders.settings_file)
        window = connected_window(link, settings, folders, Theme(application), LoadOptions())
        window.resize(WIDTH, HEIGHT)
        window.show()
        link.become_ready()
        window.resizeDocks([window.tree_dock], [TREE_WIDTH], Qt.Orientation.Horizontal)
        _run(_BUILDING)
        gc.freeze()  # as the application does once its window is built
        rows = [
            {"view": view, "nodes": nodes, **_measure(window, link, view, nodes, arguments)}
            for view in arguments.views
            for nodes in arguments.nodes
        ]
        window.close()
    if arguments.json:
        print(json.dumps({"width": WIDTH, "height": HEIGHT, "rounds_per_second": arguments.rounds, "rows": rows}))
        return
    for row in rows:
        print(_LINE.format(**row))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=lambda text: [int(part) for part in text.split(",")], default=[64, 256, 1024])
    parser.add_argument("--views", type=lambda text: text.split(","), default=[CHIPS, ICICLE])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _measure(
    window: MainWindow, link: FakeLink, view: str, nodes: int, arguments: argparse.Namespace
) -> dict[str, float]:
    """One answer, from its question to its end."""
    made = [random_round(nodes, seed) for seed in range(_DIFFERENT)]
    window.tree_panel.set_way(view)
    window.chat.ask("What was there to be seen?")
    request, sent = link.last_question.id, 0

    def say() -> None:
        nonlocal sent
        text = _WORDS[sent * 12 % len(_WORDS) :][:12] + ("\n\n" if sent % 50 == 49 else "")
        link.answer(replace(made[sent % _DIFFERENT], id=request, index=sent, text=text))
        sent += 1

    canvas = window.tree_panel.findChildren(TreeCanvas)[0]
    shown: list[float] = []
    counting = canvas.composed.connect(lambda: shown.append(time.perf_counter()))
    speaking = QTimer(window, interval=1000 // arguments.rounds, timerType=Qt.TimerType.PreciseTimer)
    speaking.timeout.connect(say)
    speaking.start()
    _run(1.0)
    shown.clear()
    gaps, begin, cpu, sent_before = Gaps(), time.perf_counter(), time.process_time(), sent
    _run(arguments.seconds)
    seconds, spent = time.perf_counter() - begin, time.process_time() - cpu
    gaps.stop()
    speaking.stop()
    updates = len(shown) / seconds
    canvas.composed.disconnect(counting)
    link.finish()
    return {
        "rounds_per_second": round((sent - sent_before) / seconds, 1),
        "updates_per_second": round(updates, 1),
        "longest_gap_ms": round(max(gaps.seconds) * 1000, 1),
        "p99_gap_ms": round(sorted(gaps.seconds)[int(len(gaps.seconds) * 0.99)] * 1000, 1),
        "median_gap_ms": round(statistics.median(gaps.seconds) * 1000, 1),
        "processor": round(spent / seconds, 2),
    }


def _run(seconds: float) -> None:
    loop = QEventLoop()
    QTimer.singleShot(round(seconds * 1000), loop.quit)
    loop.exec()


if __name__ == "__main__":
    main()
