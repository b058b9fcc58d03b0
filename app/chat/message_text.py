"""A text document as tall as what it holds: it never scrolls by itself and fetches nothing."""

import math

from PySide6.QtCore import QSize, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QPalette, QWheelEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QWidget

from app.theme import reading_font

_SCHEMES = ("http", "https")


class MessageText(QTextBrowser):
    """The text of one message: selectable, links open outside and only on a click."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFont(reading_font())
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.document().setDocumentMargin(0)
        self.setTabChangesFocus(True)
        palette = self.palette()
        palette.setColor(QPalette.ColorRole.Base, Qt.GlobalColor.transparent)
        self.setPalette(palette)
        self.anchorClicked.connect(open_link)
        self.document().documentLayout().documentSizeChanged.connect(self._on_document_size_changed)

    def sizeHint(self) -> QSize:  # noqa: N802
        """As wide as its longest line, as tall as its text."""
        return QSize(math.ceil(self.document().idealWidth()), math.ceil(self.document().size().height()))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Any width will do."""
        return QSize(0, self.sizeHint().height())

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Leave the wheel to the list of messages."""
        event.ignore()

    def loadResource(self, kind: int, url: QUrl | str) -> None:  # noqa: N802
        """Images and style sheets that a text refers to are never loaded."""

    def _on_document_size_changed(self) -> None:
        self.setFixedHeight(math.ceil(self.document().size().height()))


def open_link(url: QUrl) -> None:
    """Open a web address in the person's browser; every other kind of address is ignored."""
    if url.scheme().lower() in _SCHEMES:
        QDesktopServices.openUrl(url)
