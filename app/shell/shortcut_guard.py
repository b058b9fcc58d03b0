"""Shortcuts of the window that text fields would take for themselves: Ctrl+K deletes the end of a line on Linux."""

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QLineEdit, QPlainTextEdit, QTextEdit, QWidget

_FIELDS = (QLineEdit, QPlainTextEdit, QTextEdit)


class ShortcutGuard(QObject):
    """Keeps the shortcuts of some actions for their window, whichever of its fields has the focus."""

    def __init__(self, actions: tuple[QAction, ...], window: QWidget) -> None:
        super().__init__(window)
        self._actions = actions
        self._window = window
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus_changed)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Qt asks the field first whether it wants a key: of ours it is not asked, so that the shortcut gets it."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            keys = QKeySequence(event.keyCombination())
            if any(action.shortcut() == keys for action in self._actions):
                event.ignore()
                return True
        return super().eventFilter(watched, event)

    def _on_focus_changed(self, _old: QWidget | None, new: QWidget | None) -> None:
        if isinstance(new, _FIELDS) and self._window.isAncestorOf(new):
            new.installEventFilter(self)  # a second time is the same as once
