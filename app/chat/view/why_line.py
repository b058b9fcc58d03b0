"""The words behind an answer's figures that say why it was fast or not, and lead to where telemetry shows it."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPushButton, QSizePolicy, QWidget

from app.chat.history.message import Message
from app.engine.why import Why, why
from app.i18n.translation import tr
from app.system.plain_text import tip


class WhyLine(QPushButton):
    """Looks like a figure and acts like a link; hidden where the figures say nothing.

    Where there is no room for the sentence, it is what stands before its colon.
    """

    chosen = Signal(object)  # CausePlace

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("why")
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.setAutoDefault(False)
        self.hide()
        self._found: Why | None = None
        self.clicked.connect(self._on_clicked)

    @property
    def sentence(self) -> str:
        """All that it says, also where there is no room for it; empty if it says nothing."""
        return self._found.sentence if self._found else ""

    @property
    def _beginning(self) -> str:
        return self.sentence.partition(":")[0]

    def show_message(self, message: Message) -> None:
        """Say why this answer was fast or not; nothing while it grows."""
        found = why(message.statistics) if message.ending.is_final else None
        if found == self._found:
            return
        self._found = found
        self.setVisible(found is not None)
        if found is not None:
            leads = found.place is not None
            self.setEnabled(leads)
            self.setCursor(Qt.CursorShape.PointingHandCursor if leads else Qt.CursorShape.ArrowCursor)
            way = tr("Click to see it in Telemetry.") if leads else ""
            self.setToolTip(tip(" ".join(filter(None, (f"{found.sentence}.", found.definition, way)))))
            self.setAccessibleName(found.sentence)
            self.setAccessibleDescription(" ".join(filter(None, (found.definition, way))))
            self.updateGeometry()
            self._elide()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room for the whole sentence, though less will do."""
        metrics = self.fontMetrics()
        return QSize(metrics.horizontalAdvance(self.sentence) + 6, metrics.height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Room for its beginning."""
        metrics = self.fontMetrics()
        return QSize(metrics.horizontalAdvance(self._beginning) + 6, metrics.height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Show as much as there is room for."""
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        room, metrics = max(0, self.width() - 4), self.fontMetrics()
        words = self.sentence if metrics.horizontalAdvance(self.sentence) <= room else self._beginning
        self.setText(metrics.elidedText(words, Qt.TextElideMode.ElideRight, room).replace("&", "&&"))

    def _on_clicked(self) -> None:
        if self._found is not None and self._found.place is not None:
            self.chosen.emit(self._found.place)
