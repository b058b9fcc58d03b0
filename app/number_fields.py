"""What every field for a number needs besides its style sheet."""

from PySide6.QtWidgets import QAbstractSpinBox

_ROOM = 4  # pixels


def give_room(field: QAbstractSpinBox) -> None:
    """Keep the number off the edge: a style sheet's padding makes such a field wider, but does not move its text."""
    field.lineEdit().setTextMargins(_ROOM, 0, 0, 0)
