"""How long the telemetry panel takes for a repaint after a long session: compute, downsample, paint what is in view.

python -m tests.bench.telemetry_panel [--rounds 100,1000,10000] [--updates 60] [--json]
"""

import argparse
import json
import os
import statistics
import time
from random import Random

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QApplication

from app.engine.state import EngineState, Phase
from app.telemetry.charts.time_chart import TimeChart
from app.telemetry.dock import TelemetryDock
from app.ui.theme import DARK
from engine.protocol.messages import Round
from engine.protocol.options import GenerateOptions
from tests.app.fake_link import FakeLink
from tests.app.telemetry.rounds import loaded, made_up_round

WIDTH, HEIGHT = 1240, 320
_ROUNDS = [100, 1000, 10000]
_WARM_UP = 5
_NODES = 64
_LINE = (
    "{rounds:>6} rounds, {cards} cards in view: median {median_ms:6.2f} ms, p95 {p95_ms:6.2f} ms; "
    "of processor time {median_cpu_ms:6.2f} ms, {p95_cpu_ms:6.2f} ms; {take_us:6.1f} us to take a round"
)


def main() -> None:
    """Measure every length asked for, and print a line or a JSON document."""
    arguments = _parse()
    application = QApplication.instance() or QApplication([])
    rows = [_measure(application, rounds, arguments) for rounds in arguments.rounds]
    if arguments.json:
        shape = {"width": arguments.width, "height": arguments.height, "updates": arguments.updates}
        print(json.dumps({**shape, "rows": rows}, indent=1))
        return
    for row in rows:
        print(_LINE.format(**row))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=lambda text: [int(part) for part in text.split(",")], default=_ROUNDS)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--height", type=int, default=HEIGHT)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _measure(application: QCoreApplication, rounds: int, arguments: argparse.Namespace) -> dict[str, float]:
    room = TelemetryDock(FakeLink(), DARK)
    assert room.panel, "it is made when it is first asked for"
    room.dock.resize(arguments.width, arguments.height)
    room.dock.show()
    application.processEvents()
    room.on_engine_state(EngineState(Phase.READY, pair=loaded()))
    room.on_asked(2, (), GenerateOptions())
    random = Random(1)
    some = [made_up_round(index, random, nodes=_NODES) for index in range(min(rounds, 500))]
    begin = time.perf_counter()
    for index in range(rounds):
        room.history.add(some[index % len(some)])
    take_us = (time.perf_counter() - begin) / rounds * 1e6
    application.processEvents()
    updates = [_update(room, some[index % len(some)]) for index in range(_WARM_UP + arguments.updates)][_WARM_UP:]
    wall, cpu = (sorted(times) for times in zip(*updates, strict=True))
    cards = sum(not card.visibleRegion().isEmpty() for card in room.panel.cards)
    room.dock.close()
    return {
        "rounds": rounds,
        "cards": cards,
        "median_ms": round(statistics.median(wall), 3),
        "p95_ms": round(_percentile(wall, 0.95), 3),
        "median_cpu_ms": round(statistics.median(cpu), 3),
        "p95_cpu_ms": round(_percentile(cpu, 0.95), 3),
        "take_us": round(take_us, 1),
    }


def _update(room: TelemetryDock, newest: Round) -> tuple[float, float]:
    """Milliseconds on the clock, and of this thread alone: on a busy machine only the latter says much."""
    room.history.add(newest)
    wall, cpu = time.perf_counter(), time.thread_time()
    room.panel.refresh()
    for card in room.panel.cards:
        if not card.visibleRegion().isEmpty():
            card.repaint()  # at once, not when the event loop comes round
            if isinstance(card.picture, TimeChart):
                card.picture.viewport().repaint()
    return (time.perf_counter() - wall) * 1000, (time.thread_time() - cpu) * 1000


def _percentile(ascending: list[float], share: float) -> float:
    return ascending[int(share * (len(ascending) - 1))]


if __name__ == "__main__":
    main()
