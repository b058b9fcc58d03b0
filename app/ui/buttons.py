"""Buttons that have room for the bold words of a default button, which Qt does not count in before they are bold."""

from PySide6.QtWidgets import QPushButton

_BOLDER = 1.12


def make_room(*buttons: QPushButton) -> None:
    """Let each be as wide as it will be when it is the default one."""
    for button in buttons:
        button.setMinimumWidth(round(button.sizeHint().width() * _BOLDER))
