"""A layout that sets its widgets side by side and goes on in a new line where there is no room left.

What can be narrower than it wants to be, as a label that wraps its words, takes what is left of a line; with the size
policy `Maximum` it is as wide as it wants to be or as narrow as it can be, and nothing between.
"""

from collections.abc import Iterable

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QSizePolicy, QSpacerItem, QStyle, QWidget


def flow_of(widgets: Iterable[QWidget | None], gap: int, parent: QWidget) -> QWidget:
    """These widgets side by side, in as many lines as they need; what is behind None stands at the end of its line."""
    made = QWidget(parent)
    row = FlowLayout(made, gap, gap)
    for each in widgets:
        if each is None:
            row.addItem(QSpacerItem(0, 0, QSizePolicy.Policy.Expanding))
        else:
            row.addWidget(each)
    return made


class FlowLayout(QLayout):
    """Rows of widgets, like the words of a paragraph; the height follows from the width."""

    def __init__(self, parent: QWidget, gap: int, line_gap: int) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._gap = gap
        self._line_gap = line_gap
        self.setContentsMargins(0, 0, 0, 0)

    def addItem(self, item: QLayoutItem) -> None:  # noqa: N802
        """Take an item at the end."""
        self._items.append(item)

    def insert_widget(self, place: int, widget: QWidget) -> None:
        """Put a widget before those from `place` on."""
        self.addWidget(widget)
        self._items.insert(place, self._items.pop())

    def count(self) -> int:
        """How many items there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """The item at `index`, None behind the last one."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """Give an item away."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802
        """It takes no more room than it needs."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        """The narrower, the taller."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """The height of all rows."""
        return self._arrange(QRect(0, 0, width, 0), move=False)

    def sizeHint(self) -> QSize:  # noqa: N802
        """Everything in one row, if it can be had."""
        sizes = [item.sizeHint() for item in self._shown()]
        width = sum(size.width() + self._gap for size in sizes) - self._gap
        return QSize(max(0, width), max((size.height() for size in sizes), default=0))

    def minimumSize(self) -> QSize:  # noqa: N802
        """Room for the widest item."""
        sizes = [item.minimumSize() for item in self._shown()]
        return QSize(*(max(map(side, sizes), default=0) for side in (QSize.width, QSize.height)))

    def setGeometry(self, rect: QRect) -> None:  # noqa: N802
        """Put every item in its place."""
        super().setGeometry(rect)
        self._arrange(rect, move=True)

    def _shown(self) -> list[QLayoutItem]:
        return [item for item in self._items if item.spacerItem() is not None or not item.isEmpty()]

    def _arrange(self, rect: QRect, move: bool) -> int:
        """Go through the rows, and move the items if asked to; returns the height of them all."""
        x, y, row_height = rect.x(), rect.y(), 0
        row: list[tuple[QLayoutItem, QRect]] = []
        for item in self._shown():
            end = rect.x() + rect.width()
            if x > rect.x() and x + item.minimumSize().width() > end:
                self._place(row if move else [], rect, row_height)
                x, y, row_height, row = rect.x(), y + row_height + self._line_gap, 0, []
            size = item.sizeHint()
            size.setWidth(_width(item, end - x))
            if item.hasHeightForWidth():
                size.setHeight(item.heightForWidth(size.width()))
            row.append((item, QRect(QPoint(x, y), size)))
            x += size.width() + self._gap
            row_height = max(row_height, size.height())
        self._place(row if move else [], rect, row_height)
        return y + row_height - rect.y()

    def _place(self, row: list[tuple[QLayoutItem, QRect]], rect: QRect, height: int) -> None:
        """Give the items of a row their places, each in the middle of its height, what follows a spacer at its end."""
        moved = 0
        parent = self.parentWidget()
        direction = parent.layoutDirection() if parent else Qt.LayoutDirection.LeftToRight
        for item, place in row:
            if item.spacerItem() is not None:
                moved = rect.right() - row[-1][1].right()
            place.translate(moved, (height - place.height()) // 2)
            item.setGeometry(QStyle.visualRect(direction, rect, place))


def _width(item: QLayoutItem, room: int) -> int:
    widget = item.widget()
    wanted, least = item.sizeHint().width(), item.minimumSize().width()
    if wanted > room and widget is not None and widget.sizePolicy().horizontalPolicy() is QSizePolicy.Policy.Maximum:
        return least
    return max(least, min(wanted, room))
