"""A field for a text in a formal language, such as a schema: checked while it is typed, and read from a file."""

from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QPlainTextEdit, QPushButton, QWidget

from app.i18n.sentences import error_text
from app.i18n.translation import tr
from app.settings.kinds import FormalText
from app.system.plain_text import tip, well_formed
from app.ui.theme import monospace_family
from app.ui.widgets import announce, fill, label
from engine.errors import InputError
from engine.files import open_ordinary
from engine.protocol.options import MOST_CONSTRAINT
from engine.protocol.sentences import reason_of, say

_TYPED_MS = 350  # without a key: a word that is being written is no mistake
_MOST_BYTES = 4 * MOST_CONSTRAINT  # in UTF-8


class FormalTextField(QWidget):
    """The text, what is wrong with it below, and a button that asks for a file."""

    edited = Signal()
    judged = Signal()  # what is wrong is told now, or no longer
    file_wanted = Signal()

    def __init__(self, declared: FormalText, parent: QWidget) -> None:
        super().__init__(parent)
        self._declared = declared
        self.text = QPlainTextEdit(self)
        self.text.setPlaceholderText(declared.empty_means)
        self.text.setTabChangesFocus(True)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)  # columns are told
        font = QFont(monospace_family())
        font.setStyleHint(QFont.StyleHint.Monospace)
        self.text.setFont(font)
        self.text.setFixedHeight(self.text.fontMetrics().lineSpacing() * declared.lines + 24)
        self.text.setAccessibleName(tr(declared.title))
        self.text.setToolTip(tip(tr(declared.help)))
        self.fault = label("error", "", self)
        self.fault.hide()
        self.open = QPushButton(tr("Open a file…"), self)
        self.open.setObjectName("small")
        self.open.setToolTip(tip(tr("Read the text from a file, in place of what is written here")))
        self.open.setAccessibleName(tr("Open a file: {what}").format(what=tr(declared.title)))
        fill(self, (self.text, self.fault, self.open), 6)
        self.setFocusProxy(self.text)
        self._typed = QTimer(self, singleShot=True, interval=_TYPED_MS)
        self._typed.timeout.connect(self.judge)
        self.text.textChanged.connect(self._typed.start)
        self.text.textChanged.connect(self.edited)
        self.open.clicked.connect(self.file_wanted)

    def show_text(self, text: str) -> None:
        """Show this, unless it is there already: the caret stays where it is."""
        if text != self.text.toPlainText():
            self.text.setPlainText(text)
        self.judge()

    def judge(self) -> None:
        """Tell what is wrong with the text as it stands."""
        self._typed.stop()
        before, now = self.fault.text(), self._fault()
        self.fault.setText(now)
        self.fault.setVisible(bool(now))
        self.text.setAccessibleDescription(now)
        if now != before:
            if now and self.text.hasFocus():
                announce(self.text, now)
            self.judged.emit()

    def _fault(self) -> str:
        try:
            self._declared.check(self.text.toPlainText())
        except InputError as error:
            return error_text(error)
        return ""


def read_formal_text(path: Path) -> str:
    """The text of a file, with a bound to its size. Raises `InputError` for a file that holds none."""
    try:
        with open_ordinary(path) as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        words = say("{file} cannot be read: {reason}.", file=path.name, reason=reason_of(error))
        raise InputError(words, say("Choose another file.")) from None
    if len(content) > _MOST_BYTES:
        words = say("{name} is larger than {size} MB.", name=path.name, size=_MOST_BYTES >> 20)
        raise InputError(words, say("Choose another file."))
    try:
        return well_formed(content.decode("utf-8-sig")).replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise InputError(say("{name} is no text in UTF-8.", name=path.name), say("Choose another file.")) from None
