"""Small widgets and dialogs that several rooms use."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from PySide6.QtCore import QEvent, QObject, QSignalBlocker, QSize, Qt, QUrl
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QGuiApplication,
    QImage,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QTextDocument,
    QValidator,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QBoxLayout,
    QComboBox,
    QDoubleSpinBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QPushButton,
    QScrollArea,
    QSpinBox,
    QTextBrowser,
    QToolButton,
    QToolTip,
    QVBoxLayout,
    QWidget,
)

from app.i18n.translation import tr
from app.system.plain_text import tip


def announce(widget: QWidget, words: str) -> None:
    """Have a screen reader say this, wherever the focus is."""
    QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, words))


def label(name: str, text: str, parent: QWidget) -> QLabel:
    """A label that wraps and shows its text as it is; `name` is one of the style sheet's."""
    made = QLabel(text, parent)
    made.setObjectName(name)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setWordWrap(True)
    return made


_BOLDER = 1.12


def make_room(*buttons: QPushButton) -> None:
    """Let each be as wide as it will be when it is the default one."""
    for button in buttons:
        button.setMinimumWidth(round(button.sizeHint().width() * _BOLDER))


_TOOL_SIZE = 26


def quiet_tool(parent: QWidget, name: str, action: Callable[[], object]) -> QToolButton:
    """A button that shows an icon only; `name` is its tooltip and what a screen reader says."""
    tool = QToolButton(parent)
    tool.setObjectName("quiet")
    tool.setFixedSize(_TOOL_SIZE, _TOOL_SIZE)
    tool.setToolTip(tip(name))
    tool.setAccessibleName(name)
    tool.clicked.connect(action)
    return tool


def offer(button: QAbstractButton, told: str, hindrance: str = "") -> None:
    """Have a button do what it is `told` to do by its tooltip, or be off and say what hinders it; empty for nothing."""
    button.setEnabled(not hindrance)
    button.setAccessibleDescription(hindrance)
    button.setToolTip(tip(f"{told}\n{hindrance}" if hindrance else told))


_TEXT_MARGIN = 4  # pixels


def give_room(field: QAbstractSpinBox) -> None:
    """Keep the number off the edge: a style sheet's padding makes such a field wider, but does not move its text."""
    field.lineEdit().setTextMargins(_TEXT_MARGIN, 0, 0, 0)


Part = QWidget | QLayout | int | None
"""Of a row or a column: None is room that stretches, a number a gap of so many pixels."""


def row_of(parts: Iterable[Part], spacing: int = -1, wide: QWidget | None = None) -> QHBoxLayout:
    """These side by side; `wide` takes what is left of the width, and a spacing of -1 is the style's."""
    row = QHBoxLayout()
    _add(row, parts, spacing, wide)
    return row


def fill(
    widget: QWidget, parts: Iterable[Part], spacing: int, *margins: int, high: QWidget | QLayout | None = None
) -> QVBoxLayout:
    """Put these below each other into a widget, with `margins` left, above, right and below; none are 0.

    `high` takes what is left of the height.
    """
    column = QVBoxLayout(widget)
    column.setContentsMargins(*(margins or (0, 0, 0, 0)))
    _add(column, parts, spacing, high)
    return column


def _add(box: QBoxLayout, parts: Iterable[Part], spacing: int, largest: QWidget | QLayout | None) -> None:
    box.setSpacing(spacing)
    for each in parts:
        if isinstance(each, QLayout):
            box.addLayout(each, int(each is largest))
        elif isinstance(each, QWidget):
            box.addWidget(each, int(each is largest))
        elif each is None:
            box.addStretch(1)
        else:
            box.addSpacing(each)


def page_body(page: QScrollArea, name: str = "page") -> QWidget:
    """What a page of options stands on: as wide as the page, which scrolls only up and down."""
    page.setFrameShape(QFrame.Shape.NoFrame)
    page.setWidgetResizable(True)
    page.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    page.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    body = QWidget(page)
    body.setObjectName(name)
    page.setWidget(body)
    return body


def adopt(dialog: QWidget, window: QWidget) -> None:
    """Have a dialog that was made for another window belong to this one; where it was open it is closed."""
    if dialog.parentWidget() is not window:
        dialog.setParent(window, dialog.windowFlags())


FRAME = QSize(16, 48)  # pixels of what stands around a window that was not shown yet: its title and edges


def fit_screen(window: QWidget, size: QSize) -> None:
    """Make a window so large, or as large as the screen has room for: its buttons must not end up below the screen."""
    screen = (window.parentWidget() or window).screen()
    window.resize(size.boundedTo(screen.availableGeometry().size() - FRAME))


class DecimalField(QDoubleSpinBox):
    """A number with decimals, which may be typed with a point in every language."""

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        """Take a point for what parts decimals here: in German Qt would leave it out, and make 6 of 0.6."""
        return super().validate(text.replace(".", self.locale().decimalPoint()), place)


class CutLabel(QLabel):
    """Words in one line, of which the end is left out where there is no room for it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Any width will do."""
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw what there is room for."""
        room = self.contentsRect()
        words = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, room.width())
        painter, place = QPainter(self), self.alignment()
        self.style().drawItemText(painter, room, place, self.palette(), True, words, self.foregroundRole())


_IMAGE = QTextDocument.ResourceType.ImageResource.value
_TEXT = " "


class SealedBrowser(QTextBrowser):
    """Shows what the program puts into its document, pictures too, and nothing else."""

    def loadResource(self, kind: int, url: QUrl | str) -> QImage | str:  # noqa: N802
        """Something empty: where there is nothing, or something of another type, Qt opens the file by itself."""
        del url
        return QImage() if kind == _IMAGE else _TEXT


class _Silence(QObject):
    """Asked for a tooltip when the mouse has rested for a moment, the scene would find none, and hide the one shown."""

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Only this question is kept away."""
        return event.type() == QEvent.Type.ToolTip


def claims_escape(event: QEvent) -> bool:
    """Take Escape for the widget that has the focus, where it would stop an answer otherwise; whether it was that."""
    if event.type() != QEvent.Type.ShortcutOverride or not isinstance(event, QKeyEvent):
        return False
    if event.key() != Qt.Key.Key_Escape:
        return False
    event.accept()
    return True


def submits(event: QKeyEvent, with_ctrl: bool) -> bool:
    """Whether a key sends what a field holds: Enter, or Ctrl+Enter; Shift+Enter always begins a new line."""
    if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
        return False
    has_shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
    return not has_shift and bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier) == with_ctrl


def copy_text(text: str, source: QWidget) -> None:
    """Put a text on the clipboard, and say so beside what was pressed for it: nothing else is seen of that."""
    QGuiApplication.clipboard().setText(text)
    say_beside(source, tr("Copied"))


def say_beside(source: QWidget, words: str) -> None:
    """Say something for a moment below what was pressed, which has nothing else to show for it."""
    QToolTip.showText(source.mapToGlobal(source.rect().bottomLeft()), tip(words), source)


@contextmanager
def without_signals(*senders: QObject) -> Iterator[None]:
    """Fields that are filled by the program tell nobody that they have changed."""
    blockers = [QSignalBlocker(each) for each in senders]
    try:
        yield
    finally:
        for each in blockers:
            each.unblock()


def keep_tips(viewport: QWidget) -> None:
    """What is shown while the mouse rests in this viewport stays until it moves on."""
    viewport.installEventFilter(_Silence(viewport))


class WheellessChoice(QComboBox):
    """A choice that the wheel does not change: nobody wants to change it by scrolling past it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Left to the page."""
        event.ignore()


class WheellessWhole(QSpinBox):
    """A whole number that the wheel does not change."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        give_room(self)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Left to the page."""
        event.ignore()


class WheellessDecimal(DecimalField):
    """A number with decimals that the wheel does not change."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        give_room(self)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Left to the page."""
        event.ignore()
