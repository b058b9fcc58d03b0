"""How long the tree panel takes for one update: decode, lay out and paint a new round at 1100 x 760, in each view.

python -m tests.bench.tree_panel --nodes 64,256,1024,2048 [--views chips,icicle] [--updates 60] [--json]
"""

import argparse
import json
import os
import statistics
import time

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from app.tree.picture.canvas import CHIPS, ICICLE, TreeCanvas
from app.tree.rounds.snapshot import snapshot
from app.ui.colors import DARK
from engine.protocol.messages import Round
from tests.app.tree.trees import random_round

WIDTH, HEIGHT = 1100, 760
_WARM_UP = 5
_LINE = (
    "{view:>7}, {nodes:>5} nodes, {shown:>4} shown: median {median_ms:6.2f} ms, p95 {p95_ms:6.2f} ms; "
    "of processor time {median_cpu_ms:6.2f} ms, {p95_cpu_ms:6.2f} ms"
)


def main() -> None:
    """Measure every tree size asked for, and print a line or a JSON document."""
    arguments = _parse()
    application = QApplication.instance() or QApplication([])
    canvas = TreeCanvas(DARK.tree)
    canvas.resize(WIDTH, HEIGHT)
    canvas.show()
    application.processEvents()
    rows = []
    for view in arguments.views:
        canvas.set_way(view)
        rows += [{"view": view, **_measure(canvas, nodes, arguments.updates)} for nodes in arguments.nodes]
    if arguments.json:
        print(json.dumps({"width": WIDTH, "height": HEIGHT, "updates": arguments.updates, "rows": rows}, indent=1))
        return
    for row in rows:
        print(_LINE.format(**row))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--nodes", type=lambda text: [int(part) for part in text.split(",")], default=[64, 256, 1024, 2048, 4096]
    )
    parser.add_argument("--views", type=lambda text: text.split(","), default=[CHIPS, ICICLE])
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _measure(canvas: TreeCanvas, nodes: int, updates: int) -> dict[str, float]:
    rounds = [random_round(nodes, seed) for seed in range(_WARM_UP + updates)]
    updates_measured = [_update(canvas, newest) for newest in rounds][_WARM_UP:]
    wall, cpu = (sorted(times) for times in zip(*updates_measured, strict=True))
    picture = canvas.picture
    return {
        "nodes": nodes,
        "shown": picture.shown if picture else 0,
        "median_ms": round(statistics.median(wall), 3),
        "p95_ms": round(_percentile(wall, 0.95), 3),
        "median_cpu_ms": round(statistics.median(cpu), 3),
        "p95_cpu_ms": round(_percentile(cpu, 0.95), 3),
    }


def _update(canvas: TreeCanvas, newest: Round) -> tuple[float, float]:
    """Milliseconds on the clock, and of this thread alone: on a busy machine only the latter says much."""
    wall, cpu = time.perf_counter(), time.thread_time()
    canvas.show_tree(snapshot(newest))
    canvas.viewport().repaint()  # at once, not when the event loop comes round
    return (time.perf_counter() - wall) * 1000, (time.thread_time() - cpu) * 1000


def _percentile(ascending: list[float], share: float) -> float:
    return ascending[int(share * (len(ascending) - 1))]


if __name__ == "__main__":
    main()
