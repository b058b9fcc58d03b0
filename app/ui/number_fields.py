"""Fields for numbers and choices, and what each of them needs besides its style sheet."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QValidator, QWheelEvent
from PySide6.QtWidgets import QAbstractSpinBox, QComboBox, QDoubleSpinBox, QSpinBox, QWidget

_ROOM = 4  # pixels


def give_room(field: QAbstractSpinBox) -> None:
    """Keep the number off the edge: a style sheet's padding makes such a field wider, but does not move its text."""
    field.lineEdit().setTextMargins(_ROOM, 0, 0, 0)


class DecimalField(QDoubleSpinBox):
    """A number with decimals, which may be typed with a point in every language."""

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        """Take a point for what parts decimals here: in German Qt would leave it out, and make 6 of 0.6."""
        return super().validate(text.replace(".", self.locale().decimalPoint()), place)


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
