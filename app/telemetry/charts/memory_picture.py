"""The memories that hold the layers, as bars of cells."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip
from app.telemetry.charts.legend import Entry, Mark
from app.telemetry.figures.numbers import size
from app.ui.colors import Colors
from engine.protocol.messages import Loaded
from engine.protocol.residence import Holding

Kind = Literal["device", "ram", "ssd", "other", "free"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A stretch of a bar, from `start` to `end` of 1. `layers`: which ones; `nbytes` is 0 where it is unknown."""

    kind: Kind
    start: float
    end: float
    nbytes: int = 0
    layer: int | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """One kind of memory: a name, what is in it in numbers, its cells from left to right."""

    name: str
    layers: int
    taken: int
    room: int
    cells: tuple[Cell, ...]


def bars_of(pair: Loaded) -> tuple[Bar, ...]:
    """The memories that hold layers of the target, or could; the fastest first."""
    where = pair.residence
    sizes = where.layer_bytes if where and len(where.layer_bytes) == len(pair.tiers) else (0,) * len(pair.tiers)
    if where is None or where.shared:
        memory = where.ram if where else Holding()
        bars = [_bar("RAM", pair, sizes, ("device", "ram"), memory.taken, memory.room)]
    else:
        bars = [
            _bar("GPU", pair, sizes, ("device",), where.device.taken, where.device.room),
            _bar("RAM", pair, sizes, ("ram",), where.ram.taken, where.ram.room),
        ]
    if "ssd" in pair.tiers:
        bars.append(_bar("SSD", pair, sizes, ("ssd",), 0, 0))
    return tuple(bars)


def _bar(name: str, pair: Loaded, sizes: tuple[int, ...], tiers: tuple[Kind, ...], taken: int, room: int) -> Bar:
    """Layers, then what else is taken, then what is free; without sizes all layers are alike, and there is no more."""
    mine = [index for index, tier in enumerate(pair.tiers) if tier in tiers]
    held = sum(sizes[index] for index in mine)
    known = any(sizes)
    pieces: list[tuple[Kind, int, int | None]] = [
        (_kind(pair.tiers[index], tiers), sizes[index] if known else 1, index) for index in mine
    ]
    if known:
        pieces += [("other", max(0, taken - held), None), ("free", max(0, room - max(taken, held)), None)]
    return Bar(name, len(mine), max(taken, held), room, tuple(_cells(pieces, known)))


def _kind(tier: str, tiers: tuple[Kind, ...]) -> Kind:
    return next(kind for kind in tiers if kind == tier)


def _cells(pieces: list[tuple[Kind, int, int | None]], known: bool) -> Iterator[Cell]:
    total = sum(nbytes for _, nbytes, _ in pieces) or 1
    place = 0
    for kind, nbytes, layer in pieces:
        if nbytes:
            yield Cell(kind, place / total, (place + nbytes) / total, nbytes if known else 0, layer)
        place += nbytes


_BAR_HEIGHT = 22
_GAP = 12
_LEAST_GAP_WIDTH = 3.0  # pixels of a cell from which on a line parts it from the next one
_PLACES = {
    "device": mark("Layer {number} on the device"),
    "ram": mark("Layer {number} in RAM"),
    "ssd": mark("Layer {number} on SSD"),
}
_OF_EXPERTS = {
    "ram": mark("Experts of layer {number} in RAM"),
    "ssd": mark("Experts of layer {number} on SSD"),
}


class MemoryPicture(QWidget):
    """Painted by hand: a few hundred rectangles at most."""

    def __init__(self) -> None:
        super().__init__()
        self._bars: tuple[Bar, ...] = ()
        self._only_experts = False
        self._colors: Colors | None = None
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    @property
    def text(self) -> str:
        """All of it in words."""
        return "; ".join(f"{bar.name}: {_words(bar)}" for bar in self._bars)

    def set_colors(self, colors: Colors) -> None:
        """Change the colours."""
        self._colors = colors
        self.update()

    def show_pair(self, pair: Loaded) -> None:
        """Show where the layers of another target are."""
        self._bars = bars_of(pair)
        self._only_experts = pair.residence is not None and pair.residence.only_experts
        self.setMinimumHeight(self.sizeHint().height())
        self.setAccessibleDescription(self.text)
        self.update()

    def entries(self, _row: int) -> tuple[Entry, ...]:
        """What the colours are."""
        if self._colors is None:
            return ()
        kinds = {cell.kind for bar in self._bars for cell in bar.cells}
        solid, hatched = Qt.BrushStyle.SolidPattern, Qt.BrushStyle.BDiagPattern
        marks = (
            ("device", Mark(tr("computed where it is"), self._colors.charts.device, brush=solid)),
            ("ram", Mark(tr("kept in RAM"), self._colors.charts.ram, brush=solid)),
            ("ssd", Mark(tr("kept on SSD"), self._colors.charts.ssd, brush=solid)),
            ("other", Mark(tr("other"), self._colors.muted, brush=hatched)),
        )
        return tuple(Entry(mark, "", "") for kind, mark in marks if kind in kinds)

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room for every bar and its caption."""
        return QSize(260, max(1, len(self._bars)) * self._pitch)

    def cell_at(self, place: QPointF) -> Cell | None:
        """The cell under a point, None between the bars."""
        for number, bar in enumerate(self._bars):
            for cell in bar.cells:
                if self._room(number, cell).contains(place):
                    return cell
        return None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Say which layer is pointed at."""
        cell = self.cell_at(event.position())
        QToolTip.showText(
            event.globalPosition().toPoint(), tip(describe(cell, self._only_experts)) if cell else "", self
        )

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Captions, cells, outlines."""
        if self._colors is None:
            return
        painter = QPainter(self)
        ascent = self.fontMetrics().ascent()
        for number, bar in enumerate(self._bars):
            top = number * self._pitch
            painter.setPen(QColor(self._colors.text))
            painter.drawText(QPointF(0, top + ascent), bar.name)
            painter.setPen(QColor(self._colors.muted))
            painter.drawText(QPointF(self.fontMetrics().horizontalAdvance(f"{bar.name}  "), top + ascent), _words(bar))
            for cell in bar.cells:
                self._paint_cell(painter, self._room(number, cell), cell, self._colors)
            painter.setPen(QPen(QColor(self._colors.border), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self._room(number, Cell("free", 0, 1)))

    def _paint_cell(self, painter: QPainter, room: QRectF, cell: Cell, colors: Colors) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        if cell.kind == "free":
            return
        if cell.kind == "other":
            painter.setBrush(QBrush(QColor(colors.muted), Qt.BrushStyle.BDiagPattern))
            painter.drawRect(room)
            return
        painter.setBrush(QColor(getattr(colors.charts, cell.kind)))
        painter.drawRect(room.adjusted(0, 0, -1 if room.width() > _LEAST_GAP_WIDTH else 0, 0))

    @property
    def _pitch(self) -> int:
        return int(self.fontMetrics().lineSpacing() + 4 + _BAR_HEIGHT + _GAP)

    def _room(self, number: int, cell: Cell) -> QRectF:
        """Where a cell of the bar of this number is."""
        width = self.width() - 1
        top = number * self._pitch + self.fontMetrics().lineSpacing() + 4
        return QRectF(cell.start * width, top, (cell.end - cell.start) * width, _BAR_HEIGHT)


def describe(cell: Cell, only_experts: bool = False) -> str:
    """A cell in words; `only_experts`: all else of a layer that is not on the device stays there."""
    weight = f", {size(cell.nbytes)}" if cell.nbytes else ""
    if cell.layer is not None:
        words = _OF_EXPERTS.get(cell.kind) if only_experts else None
        return tr(words or _PLACES[cell.kind]).format(number=cell.layer + 1) + weight
    what = tr("Free to be taken") if cell.kind == "free" else tr("Draft, context, working space and the like, at most")
    return what + weight


def _words(bar: Bar) -> str:
    layers = tr("%n layers", n=bar.layers)
    if not bar.taken:
        return layers
    return (tr("{layers}, {taken} of {room}") if bar.room else "{layers}, {taken}").format(
        layers=layers, taken=size(bar.taken), room=size(bar.room)
    )
