"""What the ground of the tokens means, in one quiet line, and the way to have it gone."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QWidget

from app.chat.origins.token_tint import Tint, chance_tints, origin_tints
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.settings.preferences import TINT_CHANCE, TINT_OFF, TINT_ORIGIN
from app.system.plain_text import tip
from app.ui.flow_layout import FlowLayout
from app.ui.theme import Colors

_SWATCH, _CLOSER = QSize(18, 12), QSize(22, 18)
_MEANING = {
    TINT_ORIGIN: mark("Whose idea every token was; the target has checked them all."),
    TINT_CHANCE: mark(
        "How likely the target found every token that it wrote, before temperature and filters. "
        "Answers of earlier versions have no probabilities."
    ),
}


class Swatch(QWidget):
    """A piece of one ground."""

    def __init__(self, tint: Tint, colors: Colors, parent: QWidget) -> None:
        super().__init__(parent)
        self._tint = tint
        self._colors = colors
        self.setFixedSize(_SWATCH)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """As it looks below a token."""
        painter = QPainter(self)
        ground = QColor(self._tint.color)
        ground.setAlpha(self._tint.strength)
        painter.fillRect(self.rect(), ground)
        painter.setPen(QColor(self._colors.border))
        painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        if self._tint.is_underlined:
            painter.setPen(QPen(QColor(self._tint.color), 1, Qt.PenStyle.DotLine))
            painter.drawLine(3, self.height() - 4, self.width() - 4, self.height() - 4)


class TintLegend(QWidget):
    """Is there only while there is a tint."""

    closed = Signal()

    def __init__(self, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colors = colors
        self._kind = TINT_OFF
        self._kinds = QWidget(self)
        self._row = FlowLayout(self._kinds, gap=10, line_gap=2)
        self.closer = QToolButton(self)
        self.closer.setText("×")
        self.closer.setObjectName("dismiss")
        self.closer.setFixedSize(_CLOSER)
        self.closer.setToolTip(tr("No tint"))
        self.closer.setAccessibleName(tr("No tint"))
        self.closer.clicked.connect(self.closed)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._kinds, 1)
        row.addWidget(self.closer, 0, Qt.AlignmentFlag.AlignTop)
        self._shown: list[QWidget] = []
        self.setAccessibleName(tr("What the tint means"))
        self.hide()

    @property
    def text(self) -> str:
        """Everything it says, for tests and screen readers."""
        labels = [each for shown in self._shown for each in (shown, *shown.findChildren(QLabel))]
        return " · ".join(each.text() for each in labels if isinstance(each, QLabel))

    def show_tint(self, kind: str) -> None:
        """Explain this tint."""
        if kind != self._kind:
            self._kind = kind
            self._build()

    def set_colors(self, colors: Colors) -> None:
        """Draw it in other colours."""
        self._colors = colors
        self._build()

    def _build(self) -> None:
        for each in self._shown:
            self._row.removeWidget(each)
            each.hide()
            each.deleteLater()
        self._shown = []
        self.setVisible(self._kind != TINT_OFF)
        if self._kind == TINT_OFF:
            return
        is_origin = self._kind == TINT_ORIGIN
        self._add(self._label(tr("Tokens") if is_origin else tr("Probability")))
        for tint in origin_tints(self._colors) if is_origin else chance_tints(self._colors):
            self._add(self._entry(tint))
        self.setToolTip(tip(tr(_MEANING[self._kind])))
        self.setAccessibleDescription(self.text)

    def _entry(self, tint: Tint) -> QWidget:
        """A ground and its words, never apart."""
        entry = QWidget(self._kinds)
        row = QHBoxLayout(entry)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        row.addWidget(Swatch(tint, self._colors, entry), 0, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._label(tint.words))
        return entry

    def _label(self, words: str) -> QLabel:
        made = QLabel(words, self._kinds)
        made.setObjectName("figure")
        return made

    def _add(self, widget: QWidget) -> None:
        self._row.addWidget(widget)
        widget.show()
        self._shown.append(widget)
