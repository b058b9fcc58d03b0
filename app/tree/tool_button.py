"""The small flat buttons of the tree panel, all alike."""

from PySide6.QtWidgets import QToolButton, QWidget


def tool_button(text: str, tip: str, parent: QWidget, *, checkable: bool = False) -> QToolButton:
    """A flat button whose tooltip says what it does, and by which key."""
    button = QToolButton(parent)
    button.setText(text)
    button.setToolTip(f"<qt>{tip}</qt>")  # rich text is wrapped
    button.setAutoRaise(True)
    button.setCheckable(checkable)
    return button
