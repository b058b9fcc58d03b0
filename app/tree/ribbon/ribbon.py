"""The ribbon: a slider whose line is the answer itself, a column a round."""

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractSlider, QSizePolicy, QToolTip, QWidget

from app.i18n.translation import tr
from app.system.plain_text import tip
from app.tree.ribbon.columns import Columns, answer_begins, columns_of
from app.tree.ribbon.painting import Marks, column_pixels, paint_pixels, paint_place
from app.tree.ribbon.words import round_words, rounds_words, value_words
from app.tree.rounds.figures import Figures
from app.ui.colors import TreeColors

HEIGHT = 58  # logical pixels
MARGIN = 8
_TOP = 2
_PAGE = 10  # rounds that a page is


def about() -> str:
    """What the ribbon shows, and how it is used."""
    return tr(
        "Each column is a round: accepted tokens, on top of them the bonus, and below the line the time that it took. "
        "The line across is the budget of its tree. Click or drag, or go with the arrow keys; Ctrl+arrow goes from "
        "answer to answer."
    )


class Ribbon(QAbstractSlider):
    """Its value is the number of the round that is looked at, from 1."""

    sought = Signal(int)
    """A person wants to look at the round at this place, from 0."""

    def __init__(self, colors: TreeColors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colors = colors
        self._figures = Figures()
        self._known: tuple[int, int, int] | None = None  # what the columns were made from
        self._columns: Columns | None = None
        self._pointed: int | None = None  # a column
        self._is_by_keys = False  # it has the focus since keys led to it
        self.setOrientation(Qt.Orientation.Horizontal)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setPageStep(_PAGE)
        self.setAccessibleName(tr("Round"))
        self.valueChanged.connect(lambda value: self.sought.emit(value - 1))

    def show_rounds(self, figures: Figures, place: int) -> None:
        """Show these, the round at `place` marked; nothing is sought by that."""
        self._figures = figures
        self.blockSignals(True)
        self.setRange(1, max(1, len(figures)))
        self.setValue(place + 1)
        self.blockSignals(False)
        if 0 <= place < len(figures):
            self._describe(value_words(figures, place))
        self.update()

    def set_colors(self, colors: TreeColors) -> None:
        """Change the colours."""
        self._colors = colors
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """As wide as there is room."""
        return QSize(240, HEIGHT)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Any width will do."""
        return QSize(60, HEIGHT)

    def words_at(self, x: float) -> str:
        """About the round below a place of the widget, or the rounds that share it; what it all is beside them."""
        columns = self._laid_out()
        if columns is None or x - MARGIN >= columns.edges[-1]:
            return about()
        column = columns.column_at(x - MARGIN)
        first, end = columns.places[column : column + 2].tolist()
        return round_words(self._figures, first) if end - first == 1 else rounds_words(self._figures, first, end)

    # ---- what a person does ------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Look at the round under the pointer."""
        if event.button() == Qt.MouseButton.LeftButton:
            self.setSliderDown(True)
            self._seek(event.position().x())
        else:
            event.ignore()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Drag, or tell of what is under the pointer."""
        position = event.position()
        if self.isSliderDown():
            self._seek(position.x())
        columns = self._laid_out()
        inside = columns is not None and 0 <= position.x() - MARGIN < columns.edges[-1]
        pointed = columns.column_at(position.x() - MARGIN) if columns is not None and inside else None
        if pointed != self._pointed:
            self._pointed = pointed
            self.update()
        where = self.mapToGlobal(QPoint(round(position.x()), self.height() - 12))
        QToolTip.showText(where, tip(self.words_at(position.x())), self)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """End to drag."""
        if event.button() == Qt.MouseButton.LeftButton:
            self.setSliderDown(False)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Tell of nothing any more."""
        super().leaveEvent(event)
        self._pointed = None
        QToolTip.hideText()
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Ctrl and an arrow go to where the answer, or the one before or behind it, begins."""
        ways = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier and event.key() in ways:
            self._seek_answer(ways[Qt.Key(event.key())])
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Who came by keys is to see where they are."""
        self._is_by_keys = event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        super().focusInEvent(event)
        self.update()

    def event(self, event: QEvent) -> bool:
        """What is told moves with the pointer; the tooltip of a widget that rests would stand in its place."""
        return True if event.type() == QEvent.Type.ToolTip else super().event(event)

    def _seek(self, x: float) -> None:
        columns = self._laid_out()
        if columns is None:
            return
        value = columns.place_at(x - MARGIN) + 1
        if value == self.value():
            self.sought.emit(value - 1)  # also stays there, where it would go on
        else:
            self.setValue(value)

    def _seek_answer(self, way: int) -> None:
        begins = answer_begins(self._figures.rows).nonzero()[0] + 1
        others = begins[begins < self.value()][-1:] if way < 0 else begins[begins > self.value()][:1]
        if len(others):
            self.setValue(int(others[0]))

    def _describe(self, words: str) -> None:
        """Screen readers are told only if there is something new."""
        if words != self.accessibleDescription():
            self.setAccessibleDescription(words)

    # ---- painting ----------------------------------------------------------------------------------------------------

    def _laid_out(self) -> Columns | None:
        """The columns, made anew where rounds or the width have changed."""
        known = (id(self._figures), self._figures.version, self.width())
        if known != self._known:
            self._known = known
            rows = self._figures.rows
            self._columns = columns_of(rows, self.width() - 2 * MARGIN) if len(rows) else None
        return self._columns

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Columns, what is pointed at behind them, and the place in front."""
        columns, colors = self._laid_out(), self._colors
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(colors.background))
        if columns is None:
            return
        height, current = self.height() - 2 * _TOP, columns.column_of(self.value() - 1)
        pointed = self._pointed if self._pointed is not None and self._pointed < len(columns) else None
        pixels = column_pixels(columns, height, colors, Marks(current, pointed))
        paint_pixels(painter, pixels, MARGIN, _TOP)
        left, right = columns.edges[current : current + 2].tolist()
        paint_place(painter, QRect(MARGIN + left, _TOP, max(2, right - left), height), colors)
        if self.hasFocus():
            line = (
                QPen(QColor(colors.text), 2) if self._is_by_keys else QPen(QColor(colors.muted), 1, Qt.PenStyle.DotLine)
            )
            painter.setPen(line)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.rect().adjusted(1, 1, -1, -1))
