"""A picture of a chat in a window of its own, as large as the screen has room for."""

from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QVBoxLayout, QWidget

from app.chat.history.picture_kinds import SUFFIXES, kind_of
from app.chat.pictures.decoding import decoded, fitting, size_of
from app.i18n.number_text import Number, size_text
from app.i18n.sentences import reason_text
from app.i18n.translation import tr
from app.system.files import write_chosen
from app.system.plain_text import unsteered
from app.ui.file_dialogs import ask_where
from app.ui.jobs import Task
from app.ui.widgets import fit_screen, label, say_beside

_LEAST = QSize(420, 320)
_AROUND = QSize(40, 110)  # pixels of the window that are not the picture's
_LONGEST_NAME = 80


class PictureDialog(QDialog):
    """Shows the picture, and copies and saves it; Escape closes it."""

    def __init__(self, name: str, picture: bytes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name, self._picture = name, picture
        self.setWindowTitle(unsteered(name))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint)
        self.canvas = _Canvas(unsteered(name), self)
        self.about = label("quiet-text", self._about_it(), self)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        self.copy = self.buttons.addButton(tr("Copy"), QDialogButtonBox.ButtonRole.ActionRole)
        self.save = self.buttons.addButton(tr("Save as…"), QDialogButtonBox.ButtonRole.ActionRole)
        self.copy.setEnabled(False)  # until it is there
        self.copy.clicked.connect(self._copy)
        self.save.clicked.connect(self._save)
        self.buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.addWidget(self.canvas, 1)
        column.addWidget(self.about)
        column.addWidget(self.buttons)
        fit_screen(self, (size_of(picture) / self.devicePixelRatioF() + _AROUND).expandedTo(_LEAST))
        self._reading = Task("pictures", partial(decoded, picture), self, lambda _error: QImage())
        self._reading.done.connect(self._on_decoded)
        self._reading.start()

    def _about_it(self) -> str:
        size = size_of(self._picture)
        if size.isEmpty():
            return tr("This picture cannot be shown.")
        kind, length = kind_of(self._picture).upper(), size_text(len(self._picture))
        return f"{Number(size.width()):,} × {Number(size.height()):,} · {kind}, {length}"

    def _on_decoded(self, image: QImage) -> None:
        self.canvas.show_image(image)
        self.copy.setEnabled(not image.isNull())
        if image.isNull():
            self.about.setText(tr("This picture cannot be shown."))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setImage(self.canvas.image)
        say_beside(self.copy, tr("Copied"))

    def _save(self) -> None:
        kind = kind_of(self._picture)
        suffix = SUFFIXES.get(kind, ".png")
        kinds = {f"{kind.upper()} (*{suffix})": suffix}
        path = ask_where(self, tr("Save picture"), f"{_file_name(self._name)}{suffix}", kinds)
        if path is None:
            return
        try:
            write_chosen(path, self._picture)
        except OSError as error:
            words = tr("{path} could not be written: {reason}.").format(path=path, reason=reason_text(error))
            self.about.setText(unsteered(words))
        else:
            say_beside(self.save, tr("Saved as {name}.").format(name=path.name))


class _Canvas(QWidget):
    """The picture in the middle, smaller where there is less room, and never larger than it is."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.image = QImage()
        self.setAccessibleName(name)

    def show_image(self, image: QImage) -> None:
        """Show this one."""
        self.image = image
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """What can be seen through has the window's ground behind it."""
        if self.image.isNull():
            return
        painter, ratio = QPainter(self), self.devicePixelRatioF()
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        size = fitting(self.image.size() / ratio, self.size())
        place = QRect(QPoint((self.width() - size.width()) // 2, (self.height() - size.height()) // 2), size)
        painter.fillRect(place, self.palette().color(QPalette.ColorRole.Base))
        painter.drawImage(place, self.image)


def _file_name(name: str) -> str:
    """The name of an attachment as that of a file, without a suffix: an imported one may be anything."""
    stem = "".join(each if each.isalnum() or each in " -_" else "_" for each in Path(name).stem[:_LONGEST_NAME])
    return stem.strip(" _") or "picture"
