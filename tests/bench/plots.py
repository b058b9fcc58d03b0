"""Draws a saved table of `coppice-engine bench`: tokens per pass, and time per token, against the budget.

python -m tests.bench.plots TABLE.json... [--out DIR] [--name NAME]

Several tables are added up: the rows of the same method, budget and temperature. Writes NAME-tokens-per-pass.png and
NAME-time-per-token.png.
"""

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication

SIZE = (900, 520)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito's, told apart by all eyes
SYMBOLS = ("o", "s", "t", "d", "+", "x")


def main() -> None:
    """Read one table, write two pictures, tell their paths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--name", default="bench")
    arguments = parser.parse_args()
    rows = added_up(row for table in arguments.tables for row in json.loads(table.read_text(encoding="utf-8"))["rows"])
    application = begin_drawing()
    for field, title, scale, file in (
        ("tokens_per_pass", "tokens per pass of the target", 1.0, "tokens-per-pass"),
        ("seconds_per_token", "milliseconds per token", 1000.0, "time-per-token"),
    ):
        path = arguments.out / f"{arguments.name}-{file}.png"
        draw(rows, field, title, scale, path)
        print(path)
    application.quit()


def added_up(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for every method, budget and temperature, with the tokens and seconds of all of them."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["method"], row["budget"], row["temperature"]].append(row)
    found = []
    for (method, budget, temperature), same in groups.items():
        tokens, passes = sum(row["new_tokens"] for row in same), sum(row["passes"] or 0 for row in same)
        seconds = sum(row["seconds"]["decode"] for row in same)
        per = {"tokens_per_pass": tokens / passes if passes else None, "seconds_per_token": seconds / tokens}
        found.append({"method": method, "budget": budget, "temperature": temperature, **per})
    return found


def draw(rows: Sequence[Mapping[str, Any]], field: str, title: str, scale: float, path: Path) -> None:
    """One picture: a curve per method and temperature, and a level line for what has no budget."""
    budgets = sorted({row["budget"] for row in rows if row["budget"]})
    widget = _empty(title, "budget, drafted nodes per tree", budgets)
    plot = widget.getPlotItem()
    methods = list(dict.fromkeys(_method(row) for row in rows))
    for (method, temperature), points in _curves(rows, field).items():
        pen = pg.mkPen(QColor(COLOURS[methods.index(method) % len(COLOURS)]), width=2.2)
        if temperature > 0:
            pen.setStyle(Qt.PenStyle.DashLine)
        name = f"{method}, {'greedy' if temperature == 0 else f'T = {temperature:g}'}"
        symbol = SYMBOLS[methods.index(method) % len(SYMBOLS)]
        if None in points:
            line = pg.InfiniteLine(points[None] * scale, angle=0, pen=pen)
            plot.addItem(line)
            plot.plot([], [], pen=pen, name=name)
        else:
            places = [budgets.index(budget) for budget in points]
            values = [value * scale for value in points.values()]
            plot.plot(places, values, pen=pen, symbol=symbol, symbolSize=8, symbolBrush=pen.color(), name=name)
    plot.enableAutoRange("y")
    widget.grab().save(str(path))


def draw_curves(
    curves: Mapping[str, Mapping[int, float]], title: str, bottom: str, path: Path, level: float | None = None
) -> None:
    """One picture of named curves over counts, evenly spaced; `level` is a line to compare them with."""
    places = sorted({place for points in curves.values() for place in points})
    widget = _empty(title, bottom, places)
    plot = widget.getPlotItem()
    for number, (name, points) in enumerate(curves.items()):
        pen = pg.mkPen(QColor(COLOURS[number % len(COLOURS)]), width=2.2)
        at = [places.index(place) for place in points]
        symbol = SYMBOLS[number % len(SYMBOLS)]
        plot.plot(at, [*points.values()], pen=pen, symbol=symbol, symbolSize=8, symbolBrush=pen.color(), name=name)
    if level is not None:
        plot.addItem(pg.InfiniteLine(level, angle=0, pen=pg.mkPen(QColor("#888888"), style=Qt.PenStyle.DashLine)))
    plot.enableAutoRange("y")
    widget.grab().save(str(path))


def _empty(title: str, bottom: str, places: Sequence[int]) -> Any:
    """A widget with axes; the places stand evenly, as they are powers of two more often than not."""
    widget = pg.PlotWidget()
    widget.resize(*SIZE)
    plot = widget.getPlotItem()
    plot.setLabels(left=title, bottom=bottom)
    plot.addLegend(offset=(-10, 10), brush="#FFFFFFDD")
    plot.showGrid(x=True, y=True, alpha=0.2)
    plot.getAxis("bottom").setTicks([[(place, str(count)) for place, count in enumerate(places)]])
    plot.setXRange(-0.3, len(places) + 0.7)  # the legend stands to the right of the last one
    return widget


def begin_drawing() -> QApplication:
    """The application that pictures need, with our colours; there may be one already."""
    pg.setConfigOptions(antialias=True, background="w", foreground="#333333")
    application = QApplication.instance() or QApplication([])
    assert isinstance(application, QApplication)
    return application


def _curves(rows: Sequence[Mapping[str, Any]], field: str) -> dict[tuple[str, float], dict[int | None, float]]:
    """(method, temperature) -> {budget, None where there is none: value}."""
    curves: dict[tuple[str, float], dict[int | None, float]] = defaultdict(dict)
    for row in rows:
        if row[field] is not None:
            curves[_method(row), row["temperature"]][row["budget"]] = row[field]
    return curves


def _method(row: Mapping[str, Any]) -> str:
    """The name without its budget."""
    return str(row["method"]).rpartition(" ")[0] if row["budget"] else str(row["method"])


if __name__ == "__main__":
    main()
