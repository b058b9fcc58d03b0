"""What every field for a number needs besides its style sheet."""

from PySide6.QtGui import QValidator
from PySide6.QtWidgets import QAbstractSpinBox, QDoubleSpinBox

_ROOM = 4  # pixels


def give_room(field: QAbstractSpinBox) -> None:
    """Keep the number off the edge: a style sheet's padding makes such a field wider, but does not move its text."""
    field.lineEdit().setTextMargins(_ROOM, 0, 0, 0)


class DecimalField(QDoubleSpinBox):
    """A number with decimals, which may be typed with a point in every language."""

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        """Take a point for what parts decimals here: in German Qt would leave it out, and make 6 of 0.6."""
        return super().validate(text.replace(".", self.locale().decimalPoint()), place)
