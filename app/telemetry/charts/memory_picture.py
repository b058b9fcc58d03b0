"""The memories that hold the layers, as bars of cells."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip
from app.telemetry.charts.legend import Entry, Mark
from app.telemetry.charts.palette import Palette
from app.telemetry.numbers import size
from app.telemetry.tiers import Bar, Cell, bars_of
from engine.protocol.messages import Loaded

_BAR_HEIGHT = 22
_GAP = 12
_LEAST_GAP_WIDTH = 3.0  # pixels of a cell from which on a line parts it from the next one
_PLACES = {
    "device": mark("Layer {number} on the device"),
    "ram": mark("Layer {number} in RAM"),
    "ssd": mark("Layer {number} on SSD"),
}


class MemoryPicture(QWidget):
    """Painted by hand: a few hundred rectangles at most."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bars: tuple[Bar, ...] = ()
        self._palette: Palette | None = None
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    @property
    def text(self) -> str:
        """All of it in words."""
        return "; ".join(f"{bar.name}: {_words(bar)}" for bar in self._bars)

    def set_palette(self, palette: Palette) -> None:
        """Change the colours."""
        self._palette = palette
        self.update()

    def show_pair(self, pair: Loaded) -> None:
        """Show where the layers of another target are."""
        self._bars = bars_of(pair)
        self.setMinimumHeight(self.sizeHint().height())
        self.setAccessibleDescription(self.text)
        self.update()

    def entries(self, _row: int) -> tuple[Entry, ...]:
        """What the colours are."""
        if self._palette is None:
            return ()
        kinds = {cell.kind for bar in self._bars for cell in bar.cells}
        solid, hatched = Qt.BrushStyle.SolidPattern, Qt.BrushStyle.BDiagPattern
        marks = (
            ("device", Mark(tr("computed where it is"), self._palette.device, brush=solid)),
            ("ram", Mark(tr("kept in RAM"), self._palette.ram, brush=solid)),
            ("ssd", Mark(tr("kept on SSD"), self._palette.ssd, brush=solid)),
            ("other", Mark(tr("other"), self._palette.muted, brush=hatched)),
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
        QToolTip.showText(event.globalPosition().toPoint(), tip(describe(cell)) if cell else "", self)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Captions, cells, outlines."""
        if self._palette is None:
            return
        painter = QPainter(self)
        ascent = self.fontMetrics().ascent()
        for number, bar in enumerate(self._bars):
            top = number * self._pitch
            painter.setPen(QColor(self._palette.text))
            painter.drawText(QPointF(0, top + ascent), bar.name)
            painter.setPen(QColor(self._palette.muted))
            painter.drawText(QPointF(self.fontMetrics().horizontalAdvance(f"{bar.name}  "), top + ascent), _words(bar))
            for cell in bar.cells:
                self._paint_cell(painter, self._room(number, cell), cell, self._palette)
            painter.setPen(QPen(QColor(self._palette.grid), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self._room(number, Cell("free", 0, 1)))

    def _paint_cell(self, painter: QPainter, room: QRectF, cell: Cell, palette: Palette) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        if cell.kind == "free":
            return
        if cell.kind == "other":
            painter.setBrush(QBrush(QColor(palette.muted), Qt.BrushStyle.BDiagPattern))
            painter.drawRect(room)
            return
        painter.setBrush(QColor(getattr(palette, cell.kind)))
        painter.drawRect(room.adjusted(0, 0, -1 if room.width() > _LEAST_GAP_WIDTH else 0, 0))

    @property
    def _pitch(self) -> int:
        return int(self.fontMetrics().lineSpacing() + 4 + _BAR_HEIGHT + _GAP)

    def _room(self, number: int, cell: Cell) -> QRectF:
        """Where a cell of the bar of this number is."""
        width = self.width() - 1
        top = number * self._pitch + self.fontMetrics().lineSpacing() + 4
        return QRectF(cell.start * width, top, (cell.end - cell.start) * width, _BAR_HEIGHT)


def describe(cell: Cell) -> str:
    """A cell in words."""
    weight = f", {size(cell.nbytes)}" if cell.nbytes else ""
    if cell.layer is not None:
        return tr(_PLACES[cell.kind]).format(number=cell.layer + 1) + weight
    what = tr("Free to be taken") if cell.kind == "free" else tr("Draft, context, working space and the like, at most")
    return what + weight


def _words(bar: Bar) -> str:
    layers = tr("%n layers", n=bar.layers)
    if not bar.taken:
        return layers
    return (tr("{layers}, {taken} of {room}") if bar.room else "{layers}, {taken}").format(
        layers=layers, taken=size(bar.taken), room=size(bar.room)
    )
