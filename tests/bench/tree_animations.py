"""How long the window is deaf while an animation is made, how long that takes, and how far off the forecast size is.

python -m tests.bench.tree_animations [--nodes 64,1024] [--sizes wide,full] [--formats .webp] [--rounds 12] [--json]

Rounds are made up, but for those of `recorded`, which are ten of the embedded pair. Goal: no gap of a 16 ms timer above
50 ms. `frame` is the longest that this thread has painted without a pause.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop
from PySide6.QtWidgets import QApplication

from app.shell.wiring import TURN_SECONDS
from app.tree.exports.animations.film import Film
from app.tree.exports.animations.footage import Footage
from app.tree.exports.animations.formats import FORMATS, format_of
from app.tree.exports.choices import SAME_TIME, SIZES, AnimationChoice
from app.tree.panel import TreePanel
from app.tree.picture.canvas import WAYS
from app.tree.rounds.snapshot import snapshot
from app.ui.colors import DARK
from engine.protocol.messages import Round
from tests.app.tree.recorded import recorded_rounds
from tests.app.tree.trees import random_round
from tests.bench.ui_gap import Gaps, wait

_LINE = (
    "{nodes:>8} nodes, {way:>6}, {size:>6} {format}: {rounds} rounds in {seconds:5.1f} s; gaps: longest "
    "{longest_gap_ms:5.1f} ms, p99 {p99_gap_ms:5.1f} ms; frame {frame_ms:5.1f} ms; {kilobytes:6.0f} kB, "
    "{forecast:.2f} times that foretold"
)


def main() -> None:
    """Make one after the other, and print a line or a JSON document."""
    options = _parse()
    sys.setswitchinterval(TURN_SECONDS)  # as the application does once its window is built
    application = QApplication.instance() or QApplication([])
    assert isinstance(application, QApplication), "no other kind was made"
    rows = [
        _measure(application, nodes, AnimationChoice(size=size, way=way, suffix=suffix, pace=SAME_TIME), options.rounds)
        for nodes in options.nodes
        for way in options.views
        for size in options.sizes
        for suffix in options.formats
    ]
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print(_LINE.format(**row))


def _parse() -> argparse.Namespace:
    def parts(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=parts, default=["recorded", "64", "1024"])
    parser.add_argument("--sizes", type=parts, default=["wide"])
    parser.add_argument("--views", type=parts, default=list(WAYS))
    parser.add_argument("--formats", type=parts, default=[each.suffix for each in FORMATS])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _measure(application: QApplication, nodes: str, choice: AnimationChoice, rounds: int) -> dict[str, object]:
    panel, form = TreePanel(), format_of(choice.suffix)
    assert form, "only formats that there are can be asked for"
    panel.show()
    made = _rounds(nodes, rounds)
    for each in made:
        panel.show_round(each)
    places = range(len(made))
    footage = Footage(panel.player.history, places, snapshot(made[-1]), made[-1], panel.font())
    film = Film(panel.player, places, panel)
    over, slowest = _Over(film), _Slowest(film)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{choice.suffix}"
        wait(application, lambda: not application.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 100), "a start")
        gaps, begin = Gaps(), time.perf_counter()
        film.begin(path, form, choice, DARK.tree, panel.font())
        wait(application, lambda: over.is_over, "an animation")
        seconds = time.perf_counter() - begin
        gaps.stop()
        size = path.stat().st_size
    panel.close()
    panel.deleteLater()
    width, height = SIZES[choice.size]
    return {
        "nodes": nodes,
        "way": choice.way,
        "size": choice.size,
        "format": choice.suffix,
        "rounds": len(made),
        "seconds": round(seconds, 2),
        "longest_gap_ms": round(max(gaps.seconds) * 1000, 1),
        "p99_gap_ms": round(sorted(gaps.seconds)[int(len(gaps.seconds) * 0.99)] * 1000, 1),
        "frame_ms": round(slowest.seconds * 1000, 1),
        "kilobytes": round(size / 1e3),
        "bytes_per_pixel": round(form.bytes_per_pixel * size / footage.bytes(choice), 4),
        "pixels": width * height,
        "forecast": round(size / footage.bytes(choice), 2),
    }


def _rounds(nodes: str, count: int) -> list[Round]:
    made = (
        [random_round(int(nodes), seed) for seed in range(count)]
        if nodes.isdecimal()
        else list(recorded_rounds().values())
    )
    return [replace(each, id=1, index=index) for index, each in enumerate(made)]


class _Over:
    """Whether a film has ended, well or not."""

    def __init__(self, film: Film) -> None:
        self.is_over = False
        film.done.connect(self._on_ended)
        film.failed.connect(self._on_ended)

    def _on_ended(self, _words: str) -> None:
        self.is_over = True


class _Slowest:
    """The longest that a film has kept the window's thread at a time, in seconds."""

    def __init__(self, film: Film) -> None:
        self.seconds = 0.0
        self._paint_on = film._paint_on
        film._timer.timeout.disconnect()
        film._timer.timeout.connect(self._on_timeout)

    def _on_timeout(self) -> None:
        begin = time.thread_time()
        self._paint_on()
        self.seconds = max(self.seconds, time.thread_time() - begin)


if __name__ == "__main__":
    main()
