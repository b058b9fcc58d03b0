"""The small flat buttons of the tree panel, all alike."""

from PySide6.QtWidgets import QToolButton, QWidget

from app.system.plain_text import tip


def tool_button(text: str, help_: str, parent: QWidget, *, checkable: bool = False) -> QToolButton:
    """A flat button whose tooltip says what it does, and by which key."""
    button = QToolButton(parent)
    button.setText(text)
    button.setToolTip(tip(help_))
    button.setAutoRaise(True)
    button.setCheckable(checkable)
    return button
