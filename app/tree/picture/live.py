"""What is seen of a round before it is over: its tree as it grows, and the target's layers as they are computed."""

from collections.abc import Set
from itertools import pairwise

from PySide6.QtCore import QObject, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QBrush, QColor, QFontMetrics, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.i18n.translation import tr
from app.system.plain_text import tip
from app.tree.picture.growth import Growth
from app.tree.rounds.snapshot import MalformedTreeError, Snapshot, unverified
from app.ui.colors import TreeColors
from engine.protocol.messages import Event, Failed, Finished, Loaded, Round
from engine.protocol.watching import Drafted, Passing

CELL_HEIGHT = 12
_MARKER = 5.0  # logical pixels from the middle of a marker to its side, and its height
_MARGIN = 8
_LEAST_GAP = 4.0  # cells narrower than this stand without a gap
_HATCHED = {"device": Qt.BrushStyle.SolidPattern, "ram": Qt.BrushStyle.Dense5Pattern, "ssd": Qt.BrushStyle.NoBrush}


def cell_edges(count: int, width: int) -> list[int]:
    """[count + 1]: where the cells of so many layers begin, and the last one ends; all about as wide."""
    return [place * width // count for place in range(count + 1)]


class LayerStrip(QWidget):
    """A cell a layer, filled by where it is kept. Hidden, but for passes that are slow enough to be followed."""

    def __init__(self, colors: TreeColors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colors = colors
        self._tiers: tuple[str, ...] = ()
        self._is_shared = True  # the device computes in RAM
        self._passing: Passing | None = None
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
            self.setAccessibleDescription(self.words)
            self.show()
            self.update()

    def rest(self) -> None:
        """Nothing passes that could be followed."""
        self._passing = None
        self.hide()

    def sizeHint(self) -> QSize:  # noqa: N802
        """A line of text, and the cells between their markers."""
        return QSize(120, QFontMetrics(self.font()).height() + CELL_HEIGHT + 2 * round(_MARKER) + 10)

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
        painter.setPen(QColor(self._colors.text))
        room = self.width() - 2 * _MARGIN
        text = metrics.elidedText(self.words, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QPointF(_MARGIN, 2 + metrics.ascent()), text)
        top = metrics.height() + 4 + _MARKER
        cells = [
            QRectF(_MARGIN + begin, top, end - begin, CELL_HEIGHT)
            for begin, end in pairwise(cell_edges(len(self._tiers), room))
        ]
        for tier, cell in zip(self._tiers, cells, strict=True):
            self._paint_cell(painter, tier, cell)
        for layer in passing.arriving:
            if layer < len(cells):
                self._paint_arriving(painter, cells[layer])
        self._paint_computed(painter, cells[passing.layer], passing.waits and passing.layer in passing.arriving)

    def _paint_cell(self, painter: QPainter, tier: str, cell: QRectF) -> None:
        colour = QColor(self._colors.tiers.get(tier, self._colors.muted))
        gap = 0.5 if cell.width() < _LEAST_GAP else 1.5
        painter.setPen(QPen(colour, 1.0))
        painter.setBrush(QBrush(colour, _HATCHED.get(tier, Qt.BrushStyle.NoBrush)))
        painter.drawRect(cell.adjusted(0.5, 0.5, -gap, -0.5))

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
            "computed, dotted ones in RAM, empty ones on the SSD."
        )
        return f"{kept}\n\n{about}" if kept else about


def _triangle(x: float, y: float, height: float) -> QPolygonF:
    """With its tip at a point; below it, or above where the height is negative."""
    half = abs(height)
    return QPolygonF([QPointF(x, y), QPointF(x - half, y + height), QPointF(x + half, y + height)])


SLOW_SECONDS = 0.3  # a pass that took less cannot be followed layer by layer
_LOOK = 0.35  # such a part of the time of a round its outcome stays before the next tree is seen growing
_LONGEST_LOOK_MS = 700


def look_ms(round_seconds: float) -> int:
    """How long the outcome of a round is to be seen before the next tree grows."""
    return min(_LONGEST_LOOK_MS, round(round_seconds * _LOOK * 1000))


class Live(QObject):
    """Follows what the engine tells of the requests that belong to the conversation."""

    grown = Signal(Snapshot)
    """The tree of the newest round as it is by now, not verified yet."""

    def __init__(self, strip: LayerStrip, requests: Set[int], parent: QObject) -> None:
        """`requests` may change: those that belong to the conversation."""
        super().__init__(parent)
        self._strip = strip
        self._requests = requests
        self._growth = Growth(self)
        self._growth.grown.connect(self.grown)
        self._newest: Drafted | None = None
        self._look = QTimer(self, singleShot=True)
        self._look.timeout.connect(self._on_looked)

    def take(self, event: Event, is_seen: bool) -> None:
        """Anything that the engine tells; `is_seen`: whether trees that grow are to be shown."""
        match event:
            case Loaded():
                self._strip.set_layers(event)
            case Drafted() if is_seen and event.id in self._requests:
                self._newest = event
                if not self._look.isActive():
                    self._on_looked()
            case Passing() if event.id in self._requests:
                self._strip.follow(event)
            case Round() if event.id in self._requests:
                self._end_round(event)
            case Finished() | Failed() if event.id in self._requests:
                self.end()

    def set_colors(self, colors: TreeColors) -> None:
        """Change the colours."""
        self._strip.set_colors(colors)

    def set_stepwise(self, stepwise: bool) -> None:
        """Whether a tree is seen growing step by step."""
        self._growth.is_stepwise = stepwise

    def end_growth(self) -> None:
        """Show no more of the tree that grows."""
        self._look.stop()
        self._newest = None
        self._growth.end()

    def end(self) -> None:
        """Nothing is under way."""
        self.end_growth()
        self._strip.rest()

    def _end_round(self, verified: Round) -> None:
        """Its outcome is to be seen, however soon the next tree begins to grow."""
        self.end_growth()
        self._look.start(look_ms(verified.seconds.decode))
        if verified.seconds.target < SLOW_SECONDS:
            self._strip.rest()

    def _on_looked(self) -> None:
        drafted, self._newest = self._newest, None
        if drafted is None:
            return
        try:
            self._growth.begin(unverified(drafted))
        except MalformedTreeError:
            self._growth.end()  # the round itself will say so
