"""The figures of both answers below their texts."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QScrollArea, QSizePolicy, QWidget

from app.comparison.words import NAMES, FigureRow
from app.i18n.translation import tr
from app.system.plain_text import tip
from app.ui.widgets import label, page_body

_LEAST_HEIGHT = 64  # pixels: a low screen must have room for the texts


class FiguresTable(QScrollArea):
    """Rows of a name, two values and their ratio; they scroll where there is little room."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._body = page_body(self)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self._grid = QGridLayout(self._body)
        self._grid.setContentsMargins(12, 0, 12, 0)
        self._grid.setHorizontalSpacing(28)
        self._grid.setVerticalSpacing(2)
        self._cells: list[list[QLabel]] = []

    def sizeHint(self) -> QSize:  # noqa: N802
        """All of it."""
        return self._body.sizeHint()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Some of it."""
        return self._body.minimumSizeHint().boundedTo(QSize(10_000, _LEAST_HEIGHT))

    @property
    def text(self) -> str:
        """All of it, for tests."""
        return "\n".join(" | ".join(each.text() for each in row) for row in self._cells if not row[0].isHidden())

    def show_rows(self, rows: tuple[FigureRow, ...]) -> None:
        """Show these figures; labels are made once."""
        texts = [("", *NAMES, "A / B"), *((each.name, *each.values, each.ratio) for each in rows)]
        while len(self._cells) < len(texts):
            self._cells.append([self._cell(len(self._cells), column) for column in range(len(texts[0]))])
        for number, cells in enumerate(self._cells):
            for cell in cells:
                cell.setVisible(number < len(texts))
        for cells, row in zip(self._cells, texts, strict=False):  # answers of mixtures have a few rows more
            for cell, text in zip(cells, row, strict=True):
                cell.setText(text)
        for cells, row in zip(self._cells[1:], texts[1:], strict=False):
            for cell, head, text in zip(cells[1:], texts[0][1:], row[1:], strict=True):
                cell.setAccessibleName(f"{row[0]}, {head}: {text or '–'}")  # one by one it says nothing else
        self._grid.setColumnStretch(len(texts[0]), 1)
        self.updateGeometry()

    def _cell(self, row: int, column: int) -> QLabel:
        cell = label("quiet-text" if not column or not row else "", "", self._body)
        cell.setWordWrap(False)
        if column:
            cell.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        if not row and column == len(NAMES) + 1:
            cell.setToolTip(tip(tr("How many times the figure of A is that of B")))
        self._grid.addWidget(cell, row, column)
        return cell
