"""A dialog with a text to be read and copied."""

import re

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.system.plain_text import unsteered
from app.ui.theme import code_font
from app.ui.widgets import copy_text, fit_screen, label

_SIZE = QSize(760, 520)
_PART = re.compile(r"(.{2000})(?=.)")  # of a line: the field lays out a whole line at once


class TextDialog(QDialog):
    """Shows the text as it is, but for lines that are too long for a field; what is copied is whole."""

    def __init__(self, title: str, text: str, parent: QWidget | None = None, words: str = "") -> None:
        """`words`: said above it."""
        super().__init__(parent)
        self.setWindowTitle(unsteered(title))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.text = QPlainTextEdit(unsteered(_PART.sub(r"\1\n", text)), self)
        self.text.setReadOnly(True)
        self.text.setAccessibleName(self.windowTitle())
        self.text.setFont(code_font())
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        self.copy = self.buttons.addButton(tr("Copy"), QDialogButtonBox.ButtonRole.ActionRole)
        self.copy.clicked.connect(lambda: copy_text(text, self.copy))
        self.buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        if words:
            column.addWidget(label("quiet-text", words, self))
        column.addWidget(self.text, 1)
        column.addWidget(self.buttons)
        fit_screen(self, _SIZE)
