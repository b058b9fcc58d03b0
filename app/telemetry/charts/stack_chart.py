"""Where the time of every round went, as columns of parts."""

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.telemetry.charts.axis import round_top
from app.telemetry.charts.downsample import in_span, keep_greatest
from app.telemetry.charts.legend import Entry, Mark
from app.telemetry.charts.palette import Palette
from app.telemetry.charts.scope import Scope
from app.telemetry.charts.stack_item import StackItem
from app.telemetry.charts.time_chart import TimeChart
from app.telemetry.history import PARTS, ROW, Rows
from app.telemetry.numbers import milliseconds

_NAMES = (mark("draft"), mark("hidden draft"), mark("stream wait"), mark("compute"), mark("other"))
_ORDER = (3, 2, 1, 0, 4)  # from the bottom: the target's pass first, with what happens inside it
_BRUSHES = {"hidden draft": Qt.BrushStyle.Dense4Pattern, "stream wait": Qt.BrushStyle.BDiagPattern}
_WIDEST = "999 ms"


class StackChart(TimeChart):
    """Columns as wide as their rounds took; where they are too many, the slowest of each group of neighbours."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(scope, milliseconds, parent)
        self._item = StackItem()
        self._rows: Rows = np.zeros(0, ROW)
        self._marks: tuple[Mark, ...] = ()
        self.addItem(self._item, ignoreBounds=True)

    def set_palette(self, palette: Palette) -> None:
        """Change the colours."""
        super().set_palette(palette)
        self._marks = tuple(
            Mark(tr(name), getattr(palette, part), brush=_BRUSHES.get(name, Qt.BrushStyle.SolidPattern))
            for name, part in zip(_NAMES, PARTS, strict=True)
        )
        self._item.set_marks(tuple(self._marks[part] for part in _ORDER), palette.card)

    def show_rows(self, rows: Rows) -> bool:
        """Draw those of at least one round that are in view."""
        self._rows = rows
        span = self._scope.span
        seen = rows[in_span(rows, span)]
        first, last, slowest = keep_greatest(seen["seconds"], self.groups // 2)
        ends = seen["begin"] + seen["seconds"]
        parts = np.stack([seen[PARTS[part]][slowest] for part in _ORDER])
        levels = np.concatenate((np.zeros((1, len(slowest))), np.cumsum(parts, axis=0)))
        room = self.show_range(span, round_top(float(levels[-1].max())))
        self._item.show_columns(np.stack((seen["begin"][first], ends[last]), axis=1), levels, room)
        return True

    def entries(self, row: int) -> tuple[Entry, ...]:
        """The parts of one round, as they stand from the bottom."""
        values = (milliseconds(float(self._rows[PARTS[part]][row])) for part in _ORDER)
        marks = (self._marks[part] for part in _ORDER)
        return tuple(Entry(mark, value, _WIDEST) for mark, value in zip(marks, values, strict=True))
