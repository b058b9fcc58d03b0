"""The report of a crash, to read, copy and hand on."""

from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.system.plain_text import unsteered
from app.ui.widgets import label

_SIZE = (760, 520)


class ReportDialog(QDialog):
    """Shows a report; its buttons copy it and open its folder."""

    def __init__(self, report: Path, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Crash report"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._report = report
        try:
            text = report.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            text = tr("It cannot be read: {reason}").format(reason=error.strerror)
        self.text = QPlainTextEdit(unsteered(text), self)
        self.text.setReadOnly(True)
        self.text.setAccessibleName(tr("Crash report"))
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        self.copy = buttons.addButton(tr("Copy"), QDialogButtonBox.ButtonRole.ActionRole)
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        self.folder = buttons.addButton(tr("Open folder"), QDialogButtonBox.ButtonRole.ActionRole)
        self.folder.clicked.connect(self._on_folder)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        words = tr("Nothing of this is sent anywhere. It holds no chats and no tokens; it helps whoever looks into it.")
        column.addWidget(label("quiet-text", words, self))
        column.addWidget(self.text, 1)
        column.addWidget(buttons)
        self.resize(*_SIZE)

    def _on_folder(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._report.parent)))
