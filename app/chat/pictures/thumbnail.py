"""A picture in small, decoded beside the window; a click shows it large."""

from functools import partial

from PySide6.QtCore import QPointF, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import QBrush, QColor, QImage, QPainter, QPainterPath, QPaintEvent, QPalette, QPen, QTransform
from PySide6.QtWidgets import QAbstractButton, QWidget

from app.chat.pictures.decoding import decoded, fitting, size_of
from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.system.plain_text import tip, unsteered
from app.ui.jobs import Task

_RADIUS = 8
_LEAST = QSize(32, 32)
_UNKNOWN = QSize(160, 60)  # of a picture that cannot be shown


class Thumbnail(QAbstractButton):
    """Takes as much room as the picture will, from the beginning."""

    def __init__(self, name: str, picture: bytes, most: QSize, parent: QWidget) -> None:
        """`most`: how wide and high it may be, in pixels of the window."""
        super().__init__(parent)
        self.name, self.picture = name, picture
        self._most, self._whole = most, size_of(picture)
        self._image = QImage()
        self._reading = Task("pictures", partial(decoded, picture, most * self.devicePixelRatioF()), self, _nothing)
        self._reading.done.connect(self._on_decoded)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)  # its edge tells
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(tr("Picture {name}, {size}").format(name=unsteered(name), size=self.size_words))
        self.setToolTip(tip(f"{name}\n{self.size_words}\n{tr('Click to see it large.')}"))
        self.clicked.connect(self.open_large)
        self.fit(most.width())
        if not self._whole.isEmpty():
            self._reading.start()

    @property
    def size_words(self) -> str:
        """Its width and height, in pixels."""
        if self._whole.isEmpty():
            return tr("cannot be shown")
        return f"{Number(self._whole.width()):,} × {Number(self._whole.height()):,}"

    @property
    def is_decoded(self) -> bool:
        """Whether the picture itself is seen."""
        return not self._image.isNull()

    def fit(self, width: int) -> None:
        """Be no wider than this."""
        most = QSize(min(width, self._most.width()), self._most.height())
        size = fitting(_UNKNOWN if self._whole.isEmpty() else self._whole, most)
        self.setFixedSize(size.expandedTo(_LEAST.boundedTo(most)))

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """The picture in a frame; its ground alone until it is there."""
        painter, palette = QPainter(self), self.palette()
        painter.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.SmoothPixmapTransform)
        place = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        shape = QPainterPath()
        shape.addRoundedRect(place, _RADIUS, _RADIUS)
        painter.fillPath(shape, palette.color(QPalette.ColorRole.AlternateBase))
        if self.is_decoded:
            self._paint_image(painter, shape)
        elif self._whole.isEmpty():
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self.size_words)
        painter.setPen(QPen(self._edge, 1))
        painter.drawPath(shape)

    def _paint_image(self, painter: QPainter, shape: QPainterPath) -> None:
        """All of it, in the middle. As a brush: a clip would leave stairs at the corners."""
        size = QSizeF(self._image.size()).scaled(QSizeF(self.size()), Qt.AspectRatioMode.KeepAspectRatio)
        place = QRectF(QPointF(), size)
        place.moveCenter(QRectF(self.rect()).center())
        brush, part = QBrush(self._image), QPainterPath()
        brush.setTransform(
            QTransform.fromTranslate(place.x(), place.y()).scale(
                place.width() / self._image.width(), place.height() / self._image.height()
            )
        )
        part.addRect(place)
        painter.fillPath(shape.intersected(part), brush)

    @property
    def _edge(self) -> QColor:
        role = QPalette.ColorRole.Accent if self.underMouse() or self.hasFocus() else QPalette.ColorRole.Mid
        return self.palette().color(role)

    def _on_decoded(self, image: QImage) -> None:
        self._image = image
        if image.isNull():
            self._whole = QSize()
            self.fit(self._most.width())
        self.update()

    def open_large(self) -> None:
        """Show it in a window of its own."""
        from app.chat.pictures.viewer import PictureDialog  # noqa: PLC0415

        PictureDialog(self.name, self.picture, self.window()).open()


def _nothing(_error: BaseException) -> QImage:
    return QImage()
