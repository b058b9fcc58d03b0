"""One figure with its title, its definition, its legend and its picture."""

from typing import Any

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QStackedLayout, QToolButton, QToolTip, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.system.plain_text import tip
from app.telemetry.charts.legend import Entry, Legend
from app.telemetry.charts.palette import Palette
from app.telemetry.definitions import Figure

_PICTURE_HEIGHT = 118


class Card(QFrame):
    """Holds the picture of one figure, a widget with `set_palette`; without anything to draw it says so in words."""

    def __init__(self, figure: Figure, picture: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.figure = figure
        self.picture = picture
        self._title = QLabel(tr(figure.title), self)
        self._about = _Question(figure, self)
        self._legend = Legend(self)
        self._words = QLabel(self)
        self._pages = QStackedLayout()
        self._colors = ("#000000", "#000000")
        self._background = QColor()
        self._lay_out()
        self.show_words(tr(figure.empty))

    @property
    def reading(self) -> str:
        """What the legend says now, or why there is nothing to see."""
        return self._words.text() if self._pages.currentWidget() is self._words else self._legend.text

    def set_palette(self, palette: Palette) -> None:
        """Change the colours."""
        self._colors = (palette.text, palette.muted)
        self._background = QColor(palette.card)
        self.update()
        self.picture.set_palette(palette)

    def show_picture(self, entries: tuple[Entry, ...]) -> None:
        """Show the picture, and these values."""
        self._pages.setCurrentWidget(self.picture)
        self._legend.setVisible(bool(entries))
        self._legend.show_entries(entries, *self._colors)
        self.picture.setAccessibleDescription(self._legend.text)

    def show_words(self, words: str) -> None:
        """Say why there is nothing to draw."""
        self._words.setText(words)
        self._legend.hide()
        self._pages.setCurrentWidget(self._words)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Its ground; by hand, since a style sheet takes no notice of palettes."""
        QPainter(self).fillRect(self.rect(), self._background)

    def _lay_out(self) -> None:
        font = self._title.font()
        font.setBold(True)
        self._title.setFont(font)
        for each in (self._title, self._about):
            each.setToolTip(tip(self.figure.explanation))
        self._words.setObjectName("quiet-text")
        self._words.setWordWrap(True)
        self._words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._words.setMargin(12)
        self.picture.setParent(self)  # or the first page of a layout without a widget would open as a window
        self.picture.setMinimumHeight(_PICTURE_HEIGHT)
        self.picture.setAccessibleName(tr(self.figure.title))
        head = QHBoxLayout()
        head.setSpacing(4)
        head.addWidget(self._title)
        head.addWidget(self._about)
        head.addStretch(1)
        self._pages.addWidget(self.picture)
        self._pages.addWidget(self._words)
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 8, 10, 8)
        column.setSpacing(4)
        column.addLayout(head)
        column.addWidget(self._legend)
        column.addLayout(self._pages, 1)


class _Question(QToolButton):
    """A question mark that answers on hover, and on a click or a key for those who do not hover."""

    def __init__(self, figure: Figure, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("quiet")
        self.setText("?")
        self.setAutoRaise(True)
        self.setAccessibleName(tr("What is “{figure}”?").format(figure=tr(figure.title)))
        self.setAccessibleDescription(figure.explanation)
        self.clicked.connect(self._tell)

    def _tell(self) -> None:
        QToolTip.showText(self.mapToGlobal(self.rect().bottomLeft()), tip(self.toolTip()), self)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Say no more."""
        super().leaveEvent(event)
        QToolTip.hideText()
