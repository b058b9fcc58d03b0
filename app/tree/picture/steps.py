"""The steps of an engine that tells no trees: of each, how many tokens it drafted, and how many were accepted."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFocusEvent, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.engine.steps import StepHistory
from app.i18n.number_text import Number, share_text
from app.i18n.translation import tr
from app.ui.colors import TreeColors

_MARGIN = 14
_GAP = 10
_LEAST_COLUMN, _WIDEST_COLUMN = 4.0, 22.0  # pixels
_LEAST_CELL = 7.0  # of a token; where there is less room, the tokens of a step are drawn as one bar
_STRIP_SHARE = 0.55  # of the height; the rest is the distribution's
_LONGEST_STRIP = 260  # pixels; higher columns say no more
_BAR_SHARE = 0.6  # of the width, for the longest bar


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the columns of a strip are: `first` is the number of the step that the leftmost one shows."""

    area: QRectF
    first: int
    width: float
    steps: tuple[tuple[int, int], ...]

    @property
    def highest(self) -> int:
        """Tokens that the full height stands for."""
        return max((drafted for drafted, _ in self.steps), default=0) or 1

    def column(self, place: int) -> QRectF:
        """The room of a column, gap included."""
        return QRectF(self.area.left() + place * self.width, self.area.top(), self.width, self.area.height())

    def place_at(self, x: float) -> int | None:
        """The column at a place on the screen."""
        place = int((x - self.area.left()) // self.width)
        return place if 0 <= place < len(self.steps) else None


def frame_of(steps: StepHistory, area: QRectF) -> Frame:
    """As many of the newest steps as have room."""
    most = max(1, int(area.width() // _LEAST_COLUMN))
    shown = tuple(steps.newest)[-most:]
    width = min(_WIDEST_COLUMN, max(_LEAST_COLUMN, area.width() / max(1, len(shown))))
    return Frame(area, steps.count - len(shown), width, shown)


def distribution(by_accepted: Sequence[int], most_rows: int) -> list[tuple[str, int]]:
    """Steps by how many tokens they accepted, up to the most there were: a row each, or one for several numbers."""
    longest = max((place for place, count in enumerate(by_accepted) if count), default=-1)
    if longest < 0:
        return []
    size = -(-longest // max(1, most_rows - 1)) or 1
    rows = [("0", by_accepted[0])]  # nothing accepted stands for itself
    for begin in range(1, longest + 1, size):
        end = min(begin + size - 1, longest)
        name = f"{begin}" if begin == end else f"{begin}–{end}"
        rows.append((name, sum(by_accepted[begin : end + 1])))
    return rows


class StepsPicture(QWidget):
    """Columns above, the distribution below. A step is pointed at, or chosen with the arrow keys, to be told of."""

    def __init__(self, colors: TreeColors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colors = colors
        self._steps = StepHistory()
        self._pointed: int | None = None  # the number of a step, from 0
        self.setAccessibleName(tr("Steps of the engine"))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    @property
    def words(self) -> str:
        """The step that is pointed at, as a sentence; else what the columns are."""
        frame = self._frame()
        if self._pointed is None or not 0 <= self._pointed - frame.first < len(frame.steps):
            return tr("Each column a step: drafted tokens outlined, accepted filled.")
        drafted, accepted = frame.steps[self._pointed - frame.first]
        number = f"{Number(self._pointed + 1):,}"
        if not drafted:
            return tr("Step {number}: nothing drafted, 1 token").format(number=number)
        return tr(
            "Step {number}: {accepted} of {drafted} drafted tokens accepted, with the target's own {tokens}"
        ).format(
            number=number,
            accepted=f"{Number(accepted):,}",
            drafted=f"{Number(drafted):,}",
            tokens=f"{Number(accepted + 1):,}",
        )

    def set_colors(self, colors: TreeColors) -> None:
        """Change the colours."""
        self._colors = colors
        self.update()

    def show_steps(self, steps: StepHistory) -> None:
        """Show these, also as they grow."""
        self._steps = steps
        self._tell()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room for both parts."""
        return QSize(360, 360)

    # ---- pointing ----------------------------------------------------------------------------------------------------

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Tell of the step under the mouse."""
        frame = self._frame()
        inside = frame.area.top() <= event.position().y() <= frame.area.bottom()
        place = frame.place_at(event.position().x()) if inside else None
        self._point(None if place is None else frame.first + place)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Tell of none."""
        super().leaveEvent(event)
        self._point(None)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Tell of none."""
        super().focusOutEvent(event)
        self._point(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Left and right go from step to step, Home and End to the first and the last that are shown."""
        frame = self._frame()
        last = frame.first + len(frame.steps) - 1
        here = last + 1 if self._pointed is None else self._pointed
        ways = {Qt.Key.Key_Left: here - 1, Qt.Key.Key_Right: here + 1, Qt.Key.Key_Home: 0, Qt.Key.Key_End: last}
        if event.key() in ways and frame.steps:
            self._point(min(max(ways[Qt.Key(event.key())], frame.first), last))
        else:
            super().keyPressEvent(event)

    def _point(self, step: int | None) -> None:
        if step != self._pointed:
            self._pointed = step
            self._tell()

    def _tell(self) -> None:
        self.setAccessibleDescription(self.words)
        self.update()

    # ---- painting ----------------------------------------------------------------------------------------------------

    def _frame(self) -> Frame:
        line = self.fontMetrics().height()
        top = _MARGIN + line + _GAP
        height = min(_LONGEST_STRIP, max(2.0 * line, self.height() * _STRIP_SHARE - top - line))
        label = self.fontMetrics().horizontalAdvance("00") + 6
        area = QRectF(_MARGIN + label, top, max(1.0, self.width() - 2 * _MARGIN - label), height)
        return frame_of(self._steps, area)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """The sentence, the columns, the distribution."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._colors.background))
        if not self._steps.count:
            return
        metrics, frame = self.fontMetrics(), self._frame()
        painter.setPen(QColor(self._colors.text))
        words = metrics.elidedText(self.words, Qt.TextElideMode.ElideRight, self.width() - 2 * _MARGIN)
        painter.drawText(QPointF(_MARGIN, _MARGIN + metrics.ascent()), words)
        self._paint_axes(painter, metrics, frame)
        for place in range(len(frame.steps)):
            self._paint_column(painter, frame, place)
        self._paint_mean(painter, frame)
        below = frame.area.bottom() + metrics.height() + 2 * _GAP
        self._paint_distribution(
            painter, metrics, QRectF(_MARGIN, below, frame.area.right() - _MARGIN, self.height() - below - _MARGIN)
        )

    def _paint_axes(self, painter: QPainter, metrics: QFontMetrics, frame: Frame) -> None:
        area = frame.area
        painter.setPen(QColor(self._colors.muted))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        side = QRectF(0, area.top() - metrics.height() / 2, area.left() - 6, metrics.height())
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(side, right, _short(frame.highest))
        painter.drawText(side.translated(0, area.height()), right, "0")
        under = QRectF(area.left(), area.bottom() + 2, area.width(), metrics.height())
        first, last = f"{Number(frame.first + 1):,}", f"{Number(frame.first + len(frame.steps)):,}"
        painter.drawText(under, Qt.AlignmentFlag.AlignLeft, tr("step {number}").format(number=first))
        end = min(under.right(), max(area.left() + frame.width * len(frame.steps), under.left() + 160))
        under.setRight(end)
        if len(frame.steps) > 1:
            painter.drawText(under, Qt.AlignmentFlag.AlignRight, tr("step {number}").format(number=last))

    def _paint_column(self, painter: QPainter, frame: Frame, place: int) -> None:
        drafted, accepted = frame.steps[place]
        column = frame.column(place)
        gap = 1.0 if frame.width < 2 * _LEAST_COLUMN else 2.0
        column.adjust(0, 0, -gap, 0)
        if frame.first + place == self._pointed:
            painter.fillRect(column.adjusted(-1, 0, 1, 0), QColor(self._colors.root.fill))
        unit = column.height() / frame.highest
        if unit < _LEAST_CELL:
            self._paint_bar(painter, column, 0, drafted * unit, is_accepted=False)
            self._paint_bar(painter, column, 0, accepted * unit, is_accepted=True)
            return
        for token in range(drafted):
            self._paint_bar(painter, column, token * unit, unit - 1.5, is_accepted=token < accepted)

    def _paint_bar(self, painter: QPainter, column: QRectF, begin: float, height: float, *, is_accepted: bool) -> None:
        if height <= 0:
            return
        ink = self._colors.accepted if is_accepted else self._colors.rejected[0]
        painter.setPen(QPen(QColor(ink.line), 1.0))
        painter.setBrush(QBrush(QColor(ink.line)) if is_accepted else QBrush(Qt.BrushStyle.NoBrush))
        bottom = column.bottom() - begin
        painter.drawRect(QRectF(column.left() + 0.5, bottom - height, max(1.0, column.width() - 1), height))

    def _paint_mean(self, painter: QPainter, frame: Frame) -> None:
        """Of all steps, also of those that have no room."""
        mean = min(self._steps.accepted / self._steps.count, frame.highest)
        y = frame.area.bottom() - frame.area.height() * mean / frame.highest
        painter.setPen(QPen(QColor(self._colors.bonus.line), 2.0, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(frame.area.left(), y), QPointF(frame.area.right(), y))

    def _paint_distribution(self, painter: QPainter, metrics: QFontMetrics, room: QRectF) -> None:
        line = metrics.height() + 4
        rows = distribution(self._steps.by_accepted, int((room.height() - line) // line))
        if room.height() < 2 * line:
            return
        painter.setPen(QColor(self._colors.text))
        title = tr("Accepted tokens per step, mean {mean} (dashed)")
        mean = f"{Number(self._steps.accepted / self._steps.count):.2f}"
        words = metrics.elidedText(title.format(mean=mean), Qt.TextElideMode.ElideRight, int(room.width()))
        painter.drawText(QPointF(room.left(), room.top() + metrics.ascent()), words)
        label = max(metrics.horizontalAdvance(name) for name, _ in rows) + 8
        longest = max(count for _, count in rows)
        for number, (name, count) in enumerate(rows):
            row = QRectF(room.left(), room.top() + (number + 1) * line + 2, label - 8, line - 4)
            painter.setPen(QColor(self._colors.muted))
            painter.drawText(row, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, name)
            bar = QRectF(row.right() + 8, row.top() + 1, room.width() * _BAR_SHARE * count / longest, row.height() - 2)
            ink = self._colors.accepted if number else self._colors.rejected[0]
            painter.setPen(QPen(QColor(ink.line), 1.0))
            painter.setBrush(QBrush(QColor(ink.line)) if number else QBrush(Qt.BrushStyle.NoBrush))
            if count:
                painter.drawRect(bar)
            painter.setPen(QColor(self._colors.text))
            told = f"{Number(count):,} ({share_text(count / self._steps.count)})"
            painter.drawText(QPointF(bar.right() + 8, row.top() + metrics.ascent()), told)


def _short(number: int) -> str:
    """At most two or three letters beside the columns."""
    return f"{Number(number)}" if number < 100 else "99+"


def as_text(steps: StepHistory) -> str:
    """A line a step, with tabs: its number, drafted, accepted; the newest ones that are kept."""
    head = "\t".join((tr("Step"), tr("Drafted"), tr("Accepted")))
    first = steps.count - len(steps.newest) + 1
    lines = [f"{first + place}\t{drafted}\t{accepted}" for place, (drafted, accepted) in enumerate(steps.newest)]
    return "\n".join((head, *lines)) + "\n"
