"""Colours, fonts and icons, light and dark, following the system while the window is open."""

from dataclasses import asdict, dataclass
from functools import cache

from PySide6.QtCore import QByteArray, QObject, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QIcon, QImage, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

from app.paths import resource

_READING_SCALE = 1.15
_ICON_SIZES = (16, 20, 24, 32, 40, 48)
_APP_ICON_SIZES = (16, 24, 32, 48, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Colors:
    """The colours of one theme, as `#rrggbb`; `code_style` is the name of a pygments style that fits them."""

    window: str
    surface: str
    raised: str
    border: str
    hover: str
    text: str
    muted: str
    accent: str
    accent_hover: str
    on_accent: str
    bubble: str
    code: str
    selection: str
    link: str
    error: str
    error_surface: str
    hint_surface: str
    code_style: str
    is_dark: bool


LIGHT = Colors(
    window="#fbfbf9",
    surface="#ffffff",
    raised="#f1f2ee",
    border="#dcdfd8",
    hover="#e8eae4",
    text="#1d211e",
    muted="#646c66",
    accent="#2c7a4b",
    accent_hover="#246640",
    on_accent="#ffffff",
    bubble="#e9efe8",
    code="#f3f4f0",
    selection="#bfe0cb",
    link="#1f6feb",
    error="#a8321f",
    error_surface="#fdeeea",
    hint_surface="#edf3ee",
    code_style="friendly",
    is_dark=False,
)

DARK = Colors(
    window="#181a19",
    surface="#202322",
    raised="#262a28",
    border="#363b38",
    hover="#303532",
    text="#e4e8e5",
    muted="#98a29b",
    accent="#58b981",
    accent_hover="#6bcb93",
    on_accent="#0d1a12",
    bubble="#2a332e",
    code="#121413",
    selection="#2f5f45",
    link="#79b8ff",
    error="#ff9b88",
    error_surface="#3a2420",
    hint_surface="#232d27",
    code_style="one-dark",
    is_dark=True,
)


class Theme(QObject):
    """Gives the application the system's theme, and again whenever the system changes its mind."""

    changed = Signal(Colors)

    def __init__(self, application: QApplication) -> None:
        super().__init__(application)
        self._application = application
        self._dark_by_palette = application.palette().color(QPalette.ColorRole.Window).lightness() < 128
        application.setStyle("Fusion")
        self.colors = self._wanted()
        self._apply()
        application.styleHints().colorSchemeChanged.connect(self._on_scheme_changed)

    def _wanted(self) -> Colors:
        """What the system says; where it says nothing, what its palette looked like."""
        scheme = self._application.styleHints().colorScheme()
        if scheme == Qt.ColorScheme.Unknown:
            return DARK if self._dark_by_palette else LIGHT
        return DARK if scheme == Qt.ColorScheme.Dark else LIGHT

    def _on_scheme_changed(self) -> None:
        wanted = self._wanted()
        if wanted != self.colors:
            self.colors = wanted
            self._apply()
            self.changed.emit(wanted)

    def _apply(self) -> None:
        self._application.setPalette(_palette(self.colors))
        self._application.setStyleSheet(_style_sheet(self.colors))


def reading_font() -> QFont:
    """The font of questions and answers: the system's, somewhat larger."""
    font = QApplication.font()
    if font.pointSizeF() > 0:
        font.setPointSizeF(font.pointSizeF() * _READING_SCALE)
    return font


def monospace_family() -> str:
    """The family the system uses for code."""
    return QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()


@cache
def icon(name: str, color: str) -> QIcon:
    """A shipped line icon, drawn in `color`."""
    svg = resource("icons", f"{name}.svg").read_text(encoding="utf-8").replace("currentColor", color)
    return _drawn(svg.encode(), _ICON_SIZES)


def application_icon() -> QIcon:
    """The icon of the application, at every size a desktop asks for."""
    return _drawn(resource("icons", "coppice.svg").read_bytes(), _APP_ICON_SIZES)


def _drawn(svg: bytes, sizes: tuple[int, ...]) -> QIcon:
    renderer = QSvgRenderer(QByteArray(svg))
    icon = QIcon()
    for size in sizes:
        image = QImage(QSize(size, size), QImage.Format.Format_ARGB32_Premultiplied)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        renderer.render(painter)
        painter.end()
        icon.addPixmap(QPixmap.fromImage(image))
    return icon


def _style_sheet(colors: Colors) -> str:
    """The shipped style sheet with `@name` replaced by the colour of that name, and `@icons` by their folder."""
    sheet = resource("styles", "coppice.qss").read_text(encoding="utf-8")
    sheet = sheet.replace("@icons", resource("icons").as_posix()).replace(
        "@scheme", "dark" if colors.is_dark else "light"
    )
    for name, value in sorted(asdict(colors).items(), key=lambda item: -len(item[0])):
        sheet = sheet.replace(f"@{name}", str(value))
    return sheet


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
