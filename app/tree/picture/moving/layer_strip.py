"""The layers of a target as a pass goes through them: where each is kept, which one is computed, which are coming."""

import time
from collections.abc import Callable
from itertools import groupby, pairwise

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetrics, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.system.plain_text import tip
from app.ui.colors import TreeColors
from engine.protocol.messages import Loaded
from engine.protocol.watching import Passing

CELL_HEIGHT = 12
_MARKER = 5.0  # logical pixels from the middle of a marker to its side, and its height
_MARGIN = 8
_LEAST_CELL = 5.0  # narrower cells of one place stand together as one
_FILLED = {"device": 1.0, "ram": 0.5}  # of a cell's height: colour alone is not seen by everybody
_TRAIL = 2.0  # the height of the line above what the pass has gone through
_LEGEND_GAP = 14
_TOLD_SECONDS = 5.0  # at most so often a screen reader is told where the pass is


def cell_edges(count: int, width: int) -> list[int]:
    """[count + 1]: where the cells of so many layers begin, and the last one ends; all about as wide."""
    return [place * width // count for place in range(count + 1)]


class LayerStrip(QWidget):
    """A cell a layer, filled by where it is kept. Hidden, but for passes that are slow enough to be followed."""

    def __init__(
        self, colors: TreeColors, parent: QWidget | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` tells seconds."""
        super().__init__(parent)
        self._colors = colors
        self._tiers: tuple[str, ...] = ()
        self._is_shared = True  # the device computes in RAM
        self._passing: Passing | None = None
        self._clock = clock
        self._told: float | None = None  # when a screen reader was told last
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(tr("Layers of the target"))
        self.setMouseTracking(True)
        self.hide()

    @property
    def words(self) -> str:
        """What is shown, as a sentence."""
        passing = self._passing
        if passing is None:
            return ""
        layer, count = passing.layer + 1, len(self._tiers)
        if passing.waits and passing.layer in passing.arriving:
            waiting = tr("Waiting for layer {layer} of {count}, from {place}")
            return waiting.format(layer=layer, count=count, place=self._place(passing.layer))
        now = tr("Computing layer {layer} of {count}").format(layer=layer, count=count)
        coming = [layer for layer in passing.arriving if layer != passing.layer]
        if not coming:
            return now
        loading = tr("loading {layer} from {place}").format(layer=coming[0] + 1, place=self._place(coming[0]))
        return f"{now} · {loading}"

    def set_colors(self, colors: TreeColors) -> None:
        """Change the colours."""
        self._colors = colors
        self.update()

    def set_layers(self, pair: Loaded) -> None:
        """Another target: where its layers are kept."""
        self._tiers = pair.tiers
        self._is_shared = pair.residence is None or pair.residence.shared
        self.rest()

    def follow(self, passing: Passing) -> None:
        """A pass has come to another layer."""
        if passing.layer < len(self._tiers):
            self._passing = passing
            self._tell()
            self.show()
            self.update()

    def rest(self) -> None:
        """Nothing passes that could be followed."""
        self._passing = self._told = None
        self.hide()

    def _tell(self) -> None:
        """What changes twenty times a second cannot be listened to."""
        now = self._clock()
        if self._told is None or now - self._told >= _TOLD_SECONDS:
            self._told = now
            self.setAccessibleDescription(self.words)

    def sizeHint(self) -> QSize:  # noqa: N802
        """A line of text, and the cells between their markers."""
        return QSize(120, QFontMetrics(self.font()).height() + CELL_HEIGHT + 2 * round(_MARKER) + 12)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Explain the strip, and the layer under the pointer."""
        self.setToolTip(tip(self._words_at(event.position().x())))

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """The sentence, and below it the cells; markers above what is computed, below what is on its way."""
        passing = self._passing
        if passing is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        metrics = QFontMetrics(self.font())
        self._paint_words(painter, metrics)
        room, top = self.width() - 2 * _MARGIN, metrics.height() + 4 + _MARKER + _TRAIL
        cells = [
            QRectF(_MARGIN + begin, top, end - begin, CELL_HEIGHT)
            for begin, end in pairwise(cell_edges(len(self._tiers), room))
        ]
        self._paint_cells(painter, cells)
        for layer in passing.arriving:
            if layer < len(cells):
                self._paint_arriving(painter, cells[layer])
        computed = cells[passing.layer]
        gone = QRectF(_MARGIN, top - _TRAIL - 1, computed.center().x() - _MARGIN, _TRAIL)
        painter.fillRect(gone, QColor(self._colors.muted))
        self._paint_computed(painter, computed, passing.waits and passing.layer in passing.arriving)

    def _paint_words(self, painter: QPainter, metrics: QFontMetrics) -> None:
        """The sentence at the left, and at the right, where it does not crowd it, how many layers are where."""
        room = self.width() - 2 * _MARGIN
        entries = [(tier, f"{name} {Number(count):,}") for tier, name, count in self.places()]
        widths = [CELL_HEIGHT + 4 + metrics.horizontalAdvance(words) for _, words in entries]
        needed = sum(widths) + _LEGEND_GAP * len(widths)
        longest = metrics.horizontalAdvance(self._longest_words())
        painter.setPen(QColor(self._colors.text))
        is_told = len(entries) > 1 and longest + needed <= room
        text = metrics.elidedText(self.words, Qt.TextElideMode.ElideRight, room - needed if is_told else room)
        painter.drawText(QPointF(_MARGIN, 2 + metrics.ascent()), text)
        if not is_told:
            return
        x = _MARGIN + room - needed + _LEGEND_GAP
        for (tier, words), width in zip(entries, widths, strict=True):
            side = CELL_HEIGHT - 3.0
            self._paint_cell(painter, tier, QRectF(x, 2 + metrics.ascent() - side, side, side))
            painter.setPen(QColor(self._colors.muted))
            painter.drawText(QPointF(x + CELL_HEIGHT + 1, 2 + metrics.ascent()), words)
            x += width + _LEGEND_GAP

    def places(self) -> list[tuple[str, str, int]]:
        """The places that layers are kept in, in the order of the first ones: its tier, its name, how many layers."""
        firsts = list(dict.fromkeys(self._tiers))
        return [(tier, self._place(self._tiers.index(tier)), self._tiers.count(tier)) for tier in firsts]

    def _longest_words(self) -> str:
        """What the sentence may become: what stands beside it is not to come and go."""
        count = len(self._tiers)
        place = max((name for _, name, _ in self.places()), key=len, default="")
        now = tr("Computing layer {layer} of {count}").format(layer=count, count=count)
        return f"{now} · {tr('loading {layer} from {place}').format(layer=count, place=place)}"

    def _paint_cells(self, painter: QPainter, cells: list[QRectF]) -> None:
        if cells and cells[0].width() >= _LEAST_CELL:
            for tier, cell in zip(self._tiers, cells, strict=True):
                self._paint_cell(painter, tier, cell.adjusted(0, 0, -1, 0))
            return
        place = 0
        for tier, alike in groupby(self._tiers):
            end = place + len(list(alike))
            self._paint_cell(painter, tier, cells[place].united(cells[end - 1]).adjusted(0, 0, -1, 0))
            place = end

    def _paint_cell(self, painter: QPainter, tier: str, cell: QRectF) -> None:
        colour = QColor(self._colors.tiers.get(tier, self._colors.muted))
        filled = QRectF(cell)
        filled.setTop(cell.bottom() - cell.height() * _FILLED.get(tier, 0.0))
        painter.fillRect(filled, colour)
        painter.setPen(QPen(colour, 1.0))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(cell.adjusted(0.5, 0.5, -0.5, -0.5))

    def _paint_computed(self, painter: QPainter, cell: QRectF, waits: bool) -> None:
        """A triangle that points down at the layer: hollow as long as it is waited for."""
        ink = QColor(self._colors.text)
        painter.setPen(QPen(ink, 2.0))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(cell.adjusted(0, 0, -1, 0))
        painter.setPen(QPen(ink, 1.2))
        painter.setBrush(Qt.BrushStyle.NoBrush if waits else QBrush(ink))
        painter.drawPolygon(_triangle(cell.center().x(), cell.top() - 1, -_MARKER))

    def _paint_arriving(self, painter: QPainter, cell: QRectF) -> None:
        """A triangle that points up, and a dashed line."""
        ink = QColor(self._colors.bonus.line)
        painter.setPen(QPen(ink, 1.8, Qt.PenStyle.DotLine))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(cell.adjusted(0, 0, -1, 0))
        painter.setPen(QPen(ink, 1.2))
        painter.setBrush(QBrush(ink))
        painter.drawPolygon(_triangle(cell.center().x(), cell.bottom() + 1, _MARKER))

    def _place(self, layer: int) -> str:
        names = {"device": tr("RAM") if self._is_shared else tr("GPU memory"), "ram": tr("RAM"), "ssd": tr("SSD")}
        return names.get(self._tiers[layer], self._tiers[layer])

    def _words_at(self, x: float) -> str:
        edges = cell_edges(len(self._tiers), self.width() - 2 * _MARGIN) if self._tiers else [0]
        under = next((layer for layer, (low, high) in enumerate(pairwise(edges)) if low <= x - _MARGIN < high), None)
        kept = "" if under is None else tr("Layer {layer}, kept in {place}.").format(
            layer=under + 1, place=self._place(under)
        )  # fmt: skip
        about = tr(
            "A pass of the target goes through all of its layers, from left to right. ▼: the layer that is computed, "
            "or waited for (hollow). ▲: layers whose weights are on their way. Full cells are kept where they are "
            "computed, half-filled ones in RAM, empty ones on the SSD."
        )
        return f"{kept}\n\n{about}" if kept else about


def _triangle(x: float, y: float, height: float) -> QPolygonF:
    """With its tip at a point; below it, or above where the height is negative."""
    half = abs(height)
    return QPolygonF([QPointF(x, y), QPointF(x - half, y + height), QPointF(x + half, y + height)])
