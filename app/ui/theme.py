"""Colours, fonts and icons, light and dark, following the system while the window is open."""

import re
import sys
from dataclasses import fields
from functools import cache

from PySide6.QtCore import QByteArray, QObject, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QIcon, QImage, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

from app.settings.preferences import Preferences
from app.system.paths import resource
from app.system.plain_text import PLAIN_LABELS
from app.ui.colors import DARK, DARK_CONTRAST, LIGHT, LIGHT_CONTRAST, Colors

__all__ = [
    "DARK",
    "LIGHT",
    "Colors",
    "Theme",
    "application_icon",
    "code_font",
    "icon",
    "monospace_family",
    "reading_font",
]

_READING_SCALE = 1.15
_WINDOWS_CODE = ("Cascadia Mono", "Consolas")
_TEXT_SIZE = re.compile(r"font-size: (\d+)px")
_ICON_SIZES = (16, 20, 24, 32, 40, 48)
_SCHEMES = {"system": Qt.ColorScheme.Unknown, "light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}
_SMALL_APP_ICON_SIZES = (16, 24, 32)  # too few pixels for every shoot
_APP_ICON_SIZES = (48, 64, 128, 256)


class Theme(QObject):
    """Gives the application the theme that is wanted, and follows the system where that is what is wanted."""

    changing = Signal()  # every widget that is there will be styled anew
    changed = Signal(Colors)

    def __init__(self, application: QApplication) -> None:
        super().__init__(application)
        self._application = application
        self._dark_by_palette = application.palette().color(QPalette.ColorRole.Window).lightness() < 128
        self._font = application.font()
        self._preferences = Preferences()
        application.setStyle("Fusion")
        self.colors = self._wanted()
        self._apply()
        application.styleHints().colorSchemeChanged.connect(self._on_scheme_changed)

    def follow(self, preferences: Preferences) -> None:
        """Look as Preferences say from now on."""
        before, self._preferences = self._preferences, preferences
        if preferences.theme != before.theme:  # the frames of windows and the system's own dialogs go along
            self._application.styleHints().setColorScheme(_SCHEMES[preferences.theme])
        if preferences.text_size != before.text_size:
            self._set_text_size(preferences.text_size)
            self.changed.emit(self.colors)
        self._on_scheme_changed()

    def _wanted(self) -> Colors:
        """What a person or the system says; where neither says anything, what the system's palette looked like."""
        scheme = _SCHEMES[self._preferences.theme]
        if scheme == Qt.ColorScheme.Unknown:
            scheme = self._application.styleHints().colorScheme()
        dark = self._dark_by_palette if scheme == Qt.ColorScheme.Unknown else scheme == Qt.ColorScheme.Dark
        if self._preferences.high_contrast:
            return DARK_CONTRAST if dark else LIGHT_CONTRAST
        return DARK if dark else LIGHT

    def _on_scheme_changed(self) -> None:
        wanted = self._wanted()
        if wanted != self.colors:
            self.colors = wanted
            self.changing.emit()
            self._apply()
            self.changed.emit(wanted)

    def _apply(self) -> None:
        self._application.setPalette(_palette(self.colors))
        self._set_style_sheet()

    def _set_style_sheet(self) -> None:
        """Style every widget anew.

        Where one sheet replaces another, Qt does that once for each of a widget's ancestors; so none is there first.
        """
        self._application.setStyleSheet("")
        self._application.setStyleSheet(_style_sheet(self.colors, self._preferences.text_size))

    def _set_text_size(self, percent: int) -> None:
        font = QFont(self._font)
        if font.pointSizeF() > 0:
            font.setPointSizeF(font.pointSizeF() * percent / 100)
        else:
            font.setPixelSize(round(font.pixelSize() * percent / 100))
        self.changing.emit()
        self._application.setFont(font)
        self._set_style_sheet()  # for its titles; and so that widgets with a font of their own ask again


def reading_font() -> QFont:
    """The font of questions and answers: the system's, somewhat larger."""
    font = QApplication.font()
    if font.pointSizeF() > 0:
        font.setPointSizeF(font.pointSizeF() * _READING_SCALE)
    return font


def monospace_family() -> str:
    """The family the system uses for code. Qt says Courier New on every Windows, whose terminals have better ones."""
    families = _WINDOWS_CODE if sys.platform == "win32" else ()
    usual = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
    return next((each for each in families if QFontDatabase.hasFamily(each)), usual)


def code_font() -> QFont:
    """The font of code, in the size that the system has for it."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setFamily(monospace_family())
    return font


@cache
def icon(name: str, color: str) -> QIcon:
    """A shipped line icon, drawn in `color`."""
    svg = resource("icons", f"{name}.svg").read_text(encoding="utf-8").replace("currentColor", color)
    return _rendered(svg.encode(), _ICON_SIZES)


@cache
def application_icon() -> QIcon:
    """The icon of the application, at every size a desktop asks for."""
    small = _rendered(resource("icons", "coppice-small.svg").read_bytes(), _SMALL_APP_ICON_SIZES)
    return _rendered(resource("icons", "coppice.svg").read_bytes(), _APP_ICON_SIZES, small)


def _rendered(svg: bytes, sizes: tuple[int, ...], onto: QIcon | None = None) -> QIcon:
    renderer = QSvgRenderer(QByteArray(svg))
    icon = onto or QIcon()
    for size in sizes:
        image = QImage(QSize(size, size), QImage.Format.Format_ARGB32_Premultiplied)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        renderer.render(painter)
        painter.end()
        icon.addPixmap(QPixmap.fromImage(image))
    return icon


def _style_sheet(colors: Colors, text_percent: int) -> str:
    """The shipped style sheet with `@name` replaced by the colour of that name, and `@icons` by their folder.

    Its sizes of text are those at 100 percent.
    """
    sheet = PLAIN_LABELS + resource("styles", "coppice.qss").read_text(encoding="utf-8")
    if colors.is_contrast:
        sheet += resource("styles", "contrast.qss").read_text(encoding="utf-8")
    sheet = sheet.replace("@icons", resource("icons").as_posix()).replace(
        "@scheme", "dark" if colors.is_dark else "light"
    )
    named = {each.name: value for each in fields(colors) if isinstance(value := getattr(colors, each.name), str)}
    for name, value in sorted(named.items(), key=lambda item: -len(item[0])):
        sheet = sheet.replace(f"@{name}", value)
    return _TEXT_SIZE.sub(lambda size: f"font-size: {round(int(size[1]) * text_percent / 100)}px", sheet)


def _palette(colors: Colors) -> QPalette:
    roles = {
        QPalette.ColorRole.Window: colors.window,
        QPalette.ColorRole.WindowText: colors.text,
        QPalette.ColorRole.Base: colors.surface,
        QPalette.ColorRole.AlternateBase: colors.raised,
        QPalette.ColorRole.Text: colors.text,
        QPalette.ColorRole.PlaceholderText: colors.muted,
        QPalette.ColorRole.Button: colors.raised,
        QPalette.ColorRole.ButtonText: colors.text,
        QPalette.ColorRole.ToolTipBase: colors.raised,
        QPalette.ColorRole.ToolTipText: colors.text,
        QPalette.ColorRole.Highlight: colors.selection,
        QPalette.ColorRole.HighlightedText: colors.text,
        QPalette.ColorRole.Accent: colors.accent,
        QPalette.ColorRole.Link: colors.link,
        QPalette.ColorRole.LinkVisited: colors.link,
        QPalette.ColorRole.Mid: colors.border,
        QPalette.ColorRole.Dark: colors.border,
    }
    palette = QPalette()
    for role, color in roles.items():
        palette.setColor(role, QColor(color))
    for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.Text, QPalette.ColorRole.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, role, QColor(colors.muted))
    return palette
