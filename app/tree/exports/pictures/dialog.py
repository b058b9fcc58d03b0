"""The dialog that makes a picture of a round: what of it, in which colours, how large; with a preview."""

import math
from dataclasses import replace

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFormLayout,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.i18n.number_text import Number
from app.i18n.sentences import error_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.tree.exports.choices import MILLIMETRES, PAPER, PIXELS, POST, SHOWN, WHOLE, WIDTHS, PictureChoice
from app.tree.exports.fields import THEMES, choice_of, choose, colors_of, halves
from app.tree.exports.looked_at import LookedAt
from app.tree.exports.pictures.formats import FORMATS, image_of, pixels_of
from app.tree.exports.pictures.sheet import Sheet
from app.tree.exports.pictures.subjects import Subject
from app.ui.colors import TreeColors
from app.ui.widgets import DecimalField, fit_screen, give_room, label, row_of, without_signals
from engine.errors import InputError

_PARTS = {SHOWN: mark("What is shown"), WHOLE: mark("The whole tree")}
_SIZE = QSize(820, 460)
_PAGE = 1.5  # height to width of what goes onto one page
_CHECKS, _CHECKS_ALPHA = 8, 30  # pixels, and of 255: the squares that stand for transparency


class PictureDialog(QDialog):
    """`wanted` carries the sheet and the choice that a person wants to save."""

    wanted = Signal(object, object)

    def __init__(self, looked_at: LookedAt, own: TreeColors, choice: PictureChoice, parent: QWidget) -> None:
        """`own`: the colours of the window; `choice`: the last one."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Export picture"))
        self._looked_at, self._own, self._choice = looked_at, own, choice
        self._subjects: dict[tuple[str, float], Subject] = {}
        self.paper = QPushButton(tr("For a paper"), self)
        self.post = QPushButton(tr("For a post"), self)
        self.part = choice_of(tr("Part"), _PARTS, self)
        self.theme = choice_of(tr("Colours"), THEMES, self)
        self.transparent = QCheckBox(tr("Transparent background"), self)
        self.caption = QCheckBox(tr("Figures of the round below it"), self)
        self.format = choice_of(tr("Format"), {each.suffix: each.name for each in FORMATS}, self)
        self.width_ = _width_field(self)
        self.unit = choice_of(tr("Unit"), {PIXELS: mark("pixels"), MILLIMETRES: mark("mm")}, self)
        self.words = label("quiet-text", "", self)
        self.preview = Preview(self)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.save = self.buttons.addButton(tr("Save…"), QDialogButtonBox.ButtonRole.AcceptRole)
        self.copy = self.buttons.addButton(tr("Copy"), QDialogButtonBox.ButtonRole.ActionRole)
        self._describe()
        self._lay_out()
        self._connect()
        self.show_choice(choice)

    @property
    def choice(self) -> PictureChoice:
        """What is chosen now."""
        return self._choice

    @property
    def sheet(self) -> Sheet:
        """What would be saved."""
        choice = self._choice
        subject = self._subject(choice)
        return Sheet(
            subject=subject,
            colors=colors_of(choice.theme, self._own),
            width=choice.logical_width,
            font=self._looked_at.canvas.font(),
            caption=self._looked_at.caption(subject) if choice.has_caption else "",
            is_transparent=choice.is_transparent,
            tallest=_PAGE if choice.part == WHOLE else math.inf,
        )

    def show_choice(self, choice: PictureChoice) -> None:
        """Set all fields, and show what comes of it."""
        fields = (self.part, self.theme, self.transparent, self.caption, self.format, self.width_, self.unit)
        with without_signals(*fields):
            choose(self.part, choice.part)
            choose(self.theme, choice.theme)
            choose(self.format, choice.suffix)
            choose(self.unit, choice.unit)
            self.transparent.setChecked(choice.is_transparent)
            self.caption.setChecked(choice.has_caption)
            self.width_.setRange(*WIDTHS[choice.unit])
            self.width_.setValue(choice.width)
        self._choice = choice
        self._refresh()

    def tell(self, words: str) -> None:
        """Say what came of it, until something is changed."""
        self.words.setText(words)

    def _subject(self, choice: PictureChoice) -> Subject:
        """Laid out once for each width; what is shown has but one."""
        key = (choice.part, choice.logical_width if choice.part == WHOLE else 0.0)
        if key not in self._subjects:
            made = self._looked_at.whole(self._own, key[1]) if key[1] else self._looked_at.shown(self._own)
            self._subjects[key] = made
        return self._subjects[key]

    def _describe(self) -> None:
        self.paper.setToolTip(tr("Light, without a background, the whole tree, 160 mm wide, as PDF"))
        self.post.setToolTip(tr("In the colours of the window, 1,600 pixels wide, as PNG"))
        self.part.setEnabled(self._looked_at.steps is None)

    def _lay_out(self) -> None:
        form = QFormLayout()
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        form.setVerticalSpacing(6)  # a low screen must have room for the buttons
        form.addRow(row_of((self.paper, self.post), 6))
        form.addRow(tr("Part"), self.part)
        form.addRow(tr("Colours"), self.theme)
        form.addRow("", self.transparent)
        form.addRow("", self.caption)
        form.addRow(tr("Format"), self.format)
        form.addRow(tr("Width"), row_of((self.width_, self.unit), 6))
        left = QVBoxLayout()
        left.addLayout(form)
        column = QVBoxLayout(self)
        column.addLayout(halves(left, self.words, self.preview), 1)
        column.addWidget(self.buttons)
        self.save.setDefault(True)
        fit_screen(self, _SIZE)

    def _connect(self) -> None:
        self.paper.clicked.connect(lambda: self.show_choice(PAPER))
        self.post.clicked.connect(lambda: self.show_choice(POST))
        for each in (self.part, self.theme, self.format):
            each.currentIndexChanged.connect(self._on_edited)
        for box in (self.transparent, self.caption):
            box.toggled.connect(self._on_edited)
        self.width_.valueChanged.connect(self._on_edited)
        self.unit.currentIndexChanged.connect(self._on_unit)
        self.save.clicked.connect(lambda: self.wanted.emit(self.sheet, self._choice))
        self.copy.clicked.connect(self._on_copy)
        self.buttons.rejected.connect(self.reject)

    def _on_edited(self) -> None:
        self._choice = replace(
            self._choice,
            part=self.part.currentData(),
            theme=self.theme.currentData(),
            is_transparent=self.transparent.isChecked(),
            has_caption=self.caption.isChecked(),
            width=self.width_.value(),
            suffix=self.format.currentData(),
        )
        self._refresh()

    def _on_unit(self) -> None:
        """The usual width in it: the same number would be nonsense."""
        unit = self.unit.currentData()
        usual = PAPER if unit == MILLIMETRES else POST
        self.show_choice(replace(self._choice, unit=unit, width=usual.width))

    def _on_copy(self) -> None:
        try:
            sheet = self.sheet
            QGuiApplication.clipboard().setImage(image_of(sheet, pixels_of(sheet, self._choice)))
        except InputError as error:
            self.tell(error_text(error))
        else:
            self.tell(tr("The picture is on the clipboard."))

    def _refresh(self) -> None:
        sheet = self.sheet
        self.preview.show_sheet(sheet)
        self.words.setText(_size_words(sheet, self._choice))
        self.preview.setAccessibleDescription(" ".join((sheet.caption, self.words.text())).strip())


def _width_field(parent: QWidget) -> QDoubleSpinBox:
    field = DecimalField(parent)
    field.setAccessibleName(tr("Width"))
    field.setDecimals(0)
    field.setKeyboardTracking(False)  # a number that is being typed is not laid out for
    give_room(field)
    return field


def _size_words(sheet: Sheet, choice: PictureChoice) -> str:
    if choice.unit == MILLIMETRES:
        height = choice.width * sheet.ratio
        return tr("{width} × {height} mm").format(width=f"{Number(choice.width):.0f}", height=f"{Number(height):.0f}")
    size = pixels_of(sheet, choice)
    words = tr("{width} × {height} pixels")
    return words.format(width=f"{Number(size.width()):,}", height=f"{Number(size.height()):,}")


class Preview(QWidget):
    """Shows a sheet as large as there is room; squares stand for transparency."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._sheet: Sheet | None = None
        self._image: QImage | None = None
        self.setAccessibleName(tr("Preview"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_sheet(self, sheet: Sheet) -> None:
        """Show this one."""
        self._sheet, self._image = sheet, None
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room enough to recognise the picture."""
        return QSize(440, 320)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """In the middle; painted once for each size."""
        if self._sheet is None:
            return
        size = self._sheet.size.scaled(self.size().toSizeF(), Qt.AspectRatioMode.KeepAspectRatio)
        scale = min(size.width() / self._sheet.size.width(), 1.0)
        size = self._sheet.size * scale
        ratio = self.devicePixelRatioF()
        pixels = (size * ratio).toSize().expandedTo(QSize(1, 1))
        if self._image is None or self._image.size() != pixels:
            self._image = image_of(self._sheet, pixels)
        place = QRectF((self.width() - size.width()) / 2, (self.height() - size.height()) / 2, *size.toTuple())
        painter = QPainter(self)
        if self._sheet.is_transparent:
            _paint_squares(painter, place, self._sheet.colors)
        painter.drawImage(place, self._image)
        painter.setPen(QColor(self._sheet.colors.muted))
        painter.drawRect(place.adjusted(0, 0, -1, -1))


def _paint_squares(painter: QPainter, place: QRectF, colors: TreeColors) -> None:
    square_color = QColor(colors.muted)
    square_color.setAlpha(_CHECKS_ALPHA)
    painter.save()
    painter.setClipRect(place)
    painter.fillRect(place, QColor(colors.background))
    for row in range(int(place.height() // _CHECKS) + 1):
        for column in range(row % 2, int(place.width() // _CHECKS) + 1, 2):
            corner = place.topLeft()
            square = QRectF(corner.x() + column * _CHECKS, corner.y() + row * _CHECKS, _CHECKS, _CHECKS)
            painter.fillRect(square, square_color)
    painter.restore()
