"""Cards side by side, in as many columns as the width has room for."""

from collections.abc import Sequence

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QWidget

_COLUMN = 380
_MOST = 4
_GAP = 8


class CardGrid(QWidget):
    """Fills row after row."""

    def __init__(self, cards: Sequence[QWidget], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cards = tuple(cards)
        self._columns = 0
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(_GAP, _GAP, _GAP, _GAP)
        self._grid.setSpacing(_GAP)
        self._arrange(1)

    @property
    def columns(self) -> int:
        """How many there are now."""
        return self._columns

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """More columns for a wider panel."""
        super().resizeEvent(event)
        self._arrange(min(max(1, event.size().width() // _COLUMN), _MOST))

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for number, card in enumerate(self._cards):
            self._grid.addWidget(card, number // columns, number % columns)
        rows = -(-len(self._cards) // columns)
        for row in range(len(self._cards)):
            self._grid.setRowStretch(row, 1 if row < rows else 0)
        for column in range(_MOST):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)
