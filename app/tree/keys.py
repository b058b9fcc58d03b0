"""The keys of the tree panel. Those that buttons and sliders use too hold only while the tree itself has the focus."""

from collections.abc import Callable, Mapping

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget


def bind(keys: Mapping[str, Callable[[], object]], widget: QWidget) -> None:
    """Let every key do its work while the widget, or something in it, has the focus."""
    for key, work in keys.items():
        shortcut = QShortcut(QKeySequence(key), widget)
        shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        shortcut.activated.connect(work)
