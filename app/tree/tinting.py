"""Gives the buttons and labels of the panel the colours of the tree."""

from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QWidget

from app.tree.picture.palette import Palette


def tint(widget: QWidget, colours: Palette) -> None:
    """Change the colours of a widget and of what is in it."""
    palette = QPalette(widget.palette())
    for role in (QPalette.ColorRole.Window, QPalette.ColorRole.Button):
        palette.setColor(role, QColor(colours.background))
    for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.ButtonText):
        palette.setColor(role, QColor(colours.text))
    widget.setPalette(palette)
