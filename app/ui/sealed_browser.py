"""The only kind of text browser here: it opens no file and no address that its text names."""

from PySide6.QtCore import QUrl
from PySide6.QtGui import QImage, QTextDocument
from PySide6.QtWidgets import QTextBrowser

_IMAGE = QTextDocument.ResourceType.ImageResource.value
_TEXT = " "


class SealedBrowser(QTextBrowser):
    """Shows what the program puts into its document, pictures too, and nothing else."""

    def loadResource(self, kind: int, url: QUrl | str) -> QImage | str:  # noqa: N802
        """Something empty: where there is nothing, or something of another type, Qt opens the file by itself."""
        del url
        return QImage() if kind == _IMAGE else _TEXT
