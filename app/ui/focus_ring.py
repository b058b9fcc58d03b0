"""A line around what the keyboard has come to, in every window of the program."""

from PySide6.QtCore import QEvent, QObject, QRectF, Qt
from PySide6.QtGui import QFocusEvent, QGuiApplication, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QCheckBox,
    QComboBox,
    QFocusFrame,
    QLineEdit,
    QMenuBar,
    QPlainTextEdit,
    QPushButton,
    QTabBar,
    QWidget,
)

_RADIUS, _WIDTH = 5, 2  # pixels
_BORROWED = (Qt.FocusReason.PopupFocusReason, Qt.FocusReason.MenuBarFocusReason)
_TELLING = (QAbstractItemView, QAbstractSpinBox, QCheckBox, QComboBox, QLineEdit, QMenuBar, QPlainTextEdit, QTabBar)


class FocusRings(QObject):
    """Draws one where the focus goes by key; fields and lists, which show it themselves, and the mouse need none."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus_changed)

    def _on_focus_changed(self, _old: QWidget | None, new: QWidget | None) -> None:
        is_pressed = QGuiApplication.mouseButtons() != Qt.MouseButton.NoButton
        if new is not None and not (is_pressed or new.isWindow() or isinstance(new, _TELLING)):
            _Ring(new)


class _Ring(QFocusFrame):
    """As large as the widget that it is a child of; for screen readers no frame is a part of that."""

    def __init__(self, around: QWidget) -> None:
        super().__init__(around)
        self.setGeometry(around.rect())
        self.show()
        self.raise_()
        around.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Keep its size, and go when the focus goes; a menu that is open over it only borrows that."""
        if event.type() == QEvent.Type.Resize and isinstance(watched, QWidget):
            self.setGeometry(watched.rect())
        elif isinstance(event, QFocusEvent) and event.lostFocus() and event.reason() not in _BORROWED:
            self.hide()
            self.deleteLater()
        return False

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw the line."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        around, role = self.parentWidget(), QPalette.ColorRole.Accent
        if isinstance(around, QPushButton) and around.isDefault():  # which is filled with that colour
            role = QPalette.ColorRole.WindowText
        painter.setPen(QPen(self.palette().color(role), _WIDTH))
        half = _WIDTH / 2
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(half, half, -half, -half), _RADIUS, _RADIUS)
