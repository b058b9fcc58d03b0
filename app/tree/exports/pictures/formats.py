"""The formats of pictures, a table entry each: PNG for the screen, SVG and PDF for paper, with their texts as text."""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMarginsF, QRectF, QSize, QSizeF
from PySide6.QtGui import (
    QFont,
    QFontInfo,
    QFontMetricsF,
    QGuiApplication,
    QImage,
    QImageWriter,
    QPageSize,
    QPainter,
    QPdfWriter,
)

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.tree.exports.choices import MILLIMETRES, PictureChoice
from app.tree.exports.pictures.sheet import Sheet
from engine.errors import InputError

_LOGICAL_PER_INCH, _POINTS_PER_INCH, _MM_PER_INCH = 96, 72, 25.4
_PRINT_DPI = 300  # of pixels, where a width in millimetres is wanted
_MOST_PIXELS = 120_000_000  # of which each takes four bytes


@dataclass(frozen=True, slots=True)
class PictureFormat:
    """`write` makes a file's content, or raises `InputError`; `filter` is the file dialog's, with the suffix in it."""

    name: str
    suffix: str
    filter: str
    write: Callable[[Sheet, PictureChoice], bytes]


def format_of(suffix: str) -> PictureFormat | None:
    """The format whose files have this suffix, in any case."""
    return next((each for each in FORMATS if each.suffix == suffix.lower()), None)


def filters(first: str) -> dict[str, str]:
    """The filters of the file dialog with their suffixes, that of the format `first` before the others."""
    ordered = sorted(FORMATS, key=lambda each: each.suffix != first)
    return {tr(each.filter): each.suffix for each in ordered}


def pixels_of(sheet: Sheet, choice: PictureChoice) -> QSize:
    """How large the picture is as pixels."""
    width = choice.width / _MM_PER_INCH * _PRINT_DPI if choice.unit == MILLIMETRES else choice.width
    return QSize(round(width), round(width * sheet.ratio))


def image_of(sheet: Sheet, size: QSize) -> QImage:
    """The sheet as pixels; where it is transparent, with an alpha channel. Raises `InputError` if it is too large."""
    kind = QImage.Format.Format_ARGB32_Premultiplied if sheet.is_transparent else QImage.Format.Format_RGB32
    image = QImage(size, kind) if size.width() * size.height() <= _MOST_PIXELS else QImage()
    if image.isNull():
        words = tr("This picture would have {width} × {height} pixels, which is too many.")
        sides = {"width": f"{Number(size.width()):,}", "height": f"{Number(size.height()):,}"}
        raise InputError(words.format(**sides), tr("Choose a smaller width, or SVG or PDF."))
    image.fill(0)
    painter = QPainter(image)
    painter.scale(size.width() / sheet.size.width(), size.height() / sheet.size.height())
    sheet.paint(painter)
    painter.end()
    return image


def _png(sheet: Sheet, choice: PictureChoice) -> bytes:
    image = image_of(sheet, pixels_of(sheet, choice))
    if choice.unit == MILLIMETRES:
        per_metre = round(_PRINT_DPI / _MM_PER_INCH * 1000)
        image.setDotsPerMeterX(per_metre)
        image.setDotsPerMeterY(per_metre)
    if sheet.caption:
        image.setText("Description", sheet.caption)
    buffer = _buffer()
    QImageWriter(buffer, QByteArray(b"png")).write(image)
    return bytes(buffer.data().data())


def _pdf(sheet: Sheet, choice: PictureChoice) -> bytes:
    """One page of the size of the picture; its fonts are embedded."""
    buffer, inches = _buffer(), _inches(sheet, choice)
    writer = QPdfWriter(buffer)
    writer.setCreator("Coppice")
    writer.setTitle(sheet.caption)
    writer.setPageMargins(QMarginsF())
    writer.setPageSize(QPageSize(QSizeF(inches.width(), inches.height()), QPageSize.Unit.Inch))
    writer.setResolution(_screen_dpi())
    painter = QPainter(writer)
    scale = writer.width() / sheet.size.width()
    painter.scale(scale, scale)
    sheet.paint(painter)
    painter.end()
    return bytes(buffer.data().data())


def _svg(sheet: Sheet, choice: PictureChoice) -> bytes:
    from PySide6.QtSvg import QSvgGenerator  # noqa: PLC0415  # few sessions need it

    buffer, inches = _buffer(), _inches(sheet, choice)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setResolution(_screen_dpi())
    generator.setSize(sheet.size.toSize())
    generator.setViewBox(QRectF(0, 0, sheet.size.width(), sheet.size.height()))
    generator.setTitle("Coppice")
    generator.setDescription(sheet.caption)
    painter = QPainter(generator)
    sheet.paint(painter)
    painter.end()
    written = bytes(buffer.data().data()).decode()
    return _sized(_held(written), inches).encode()


FORMATS = (
    PictureFormat("PNG", ".png", mark("PNG pictures (*.png)"), _png),
    PictureFormat("SVG", ".svg", mark("SVG vector pictures (*.svg)"), _svg),
    PictureFormat("PDF", ".pdf", mark("PDF pages (*.pdf)"), _pdf),
)
"""All, in the order in which they are offered."""


def _buffer() -> QBuffer:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    return buffer


def _screen_dpi() -> int:
    """Fonts of the window have sizes in points: in a file they must come to the pixels that they have there."""
    return round(QGuiApplication.primaryScreen().logicalDotsPerInch())


def _inches(sheet: Sheet, choice: PictureChoice) -> QSizeF:
    """How large the picture is on paper; a picture of so many pixels, on a page of 96 to an inch."""
    wide = choice.width / (_MM_PER_INCH if choice.unit == MILLIMETRES else _LOGICAL_PER_INCH)
    return QSizeF(wide, wide * sheet.ratio)


_HEAD = re.compile(r'width="[^"]*" height="[^"]*"')
_TEXT = re.compile(r"<text ([^>]*)>([^<]*)</text>")
_FONT = re.compile(r'font-(family|size|weight)="([^"]*)"')
_FAMILY = re.compile(r'font-family="([^"]*)"')
_FALLBACKS = "'DejaVu Sans', 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"


def _sized(svg: str, inches: QSizeF) -> str:
    """With the wanted size, which Qt would round to whole pixels."""
    width, height = (f"{side * _MM_PER_INCH:.3f}mm" for side in (inches.width(), inches.height()))
    return _HEAD.sub(f'width="{width}" height="{height}"', svg, count=1)


def _held(svg: str) -> str:
    """With families to fall back on, and the width of every text: in another font, too, it stays in its chip."""
    metrics: dict[tuple[tuple[str, str], ...], QFontMetricsF] = {}

    def held(found: re.Match[str]) -> str:
        attributes, text = found.groups()
        font = tuple(_FONT.findall(attributes))
        if font not in metrics:
            metrics[font] = QFontMetricsF(_font_of(dict(font)))
        width = metrics[font].horizontalAdvance(html.unescape(text))
        return f'<text textLength="{width:.2f}" lengthAdjust="spacingAndGlyphs" {attributes}>{text}</text>'

    return _FAMILY.sub(lambda found: f'font-family="{_families(found[1])}"', _TEXT.sub(held, svg))


def _families(own: str) -> str:
    """Names such as "Sans Serif" are known to Qt alone."""
    family = QFontInfo(QFont(html.unescape(own))).family()
    return f"'{html.escape(family)}', {_FALLBACKS}"


def _font_of(attributes: dict[str, str]) -> QFont:
    font = QFont(html.unescape(attributes.get("family", "")))
    font.setPixelSize(round(float(attributes.get("size", "12"))))
    font.setWeight(QFont.Weight(int(attributes.get("weight", "400"))))
    return font
