"""The small quiet buttons under a message."""

from collections.abc import Callable

from PySide6.QtWidgets import QToolButton, QWidget

from app.system.plain_text import tip

_SIZE = 26


def quiet_tool(parent: QWidget, name: str, action: Callable[[], object]) -> QToolButton:
    """A button that shows an icon only; `name` is its tooltip and what a screen reader says."""
    tool = QToolButton(parent)
    tool.setObjectName("quiet")
    tool.setFixedSize(_SIZE, _SIZE)
    tool.setToolTip(tip(name))
    tool.setAccessibleName(name)
    tool.clicked.connect(action)
    return tool
