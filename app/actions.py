"""Everything the window can be told to do, with its shortcut, as the menus show it."""

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMainWindow

ESCAPE = "Esc"


class Actions:
    """The actions of the window; the window connects them."""

    def __init__(self, window: QMainWindow) -> None:
        self._window = window
        self._listed: list[QAction] = []
        self.new_chat = self._action("&New chat", "Ctrl+N", "new-chat")
        self.models = self._action("&Models…", "Ctrl+M", "models")
        self.restart_engine = self._action("&Restart engine", "Ctrl+Shift+R")
        self.quit = self._action("&Quit", "Ctrl+Q")
        self.stop = self._action("&Stop answering", ESCAPE)
        self.regenerate = self._action("&Regenerate answer", "Ctrl+R")
        self.copy_answer = self._action("&Copy answer", "Ctrl+Shift+C")
        self.write = self._action("&Write a message", "Ctrl+L")
        self.tree = self._action("Speculation &tree", "Ctrl+T", "tree")
        self.tree.setCheckable(True)
        self.generation = self._action("&Generation settings", "Ctrl+G", "settings")
        self.full_screen = self._action("&Full screen", "F11")
        self.full_screen.setCheckable(True)
        self.shortcuts = self._action("&Keyboard shortcuts", "F1")
        self.log_folder = self._action("Open &log folder", "")
        self.about = self._action("&About Coppice", "")
        self._fill_menus()

    @property
    def listed(self) -> tuple[tuple[str, str], ...]:
        """Name and shortcut of everything that has a shortcut."""
        named = ((each.text().replace("&", "").rstrip("…"), each.shortcut()) for each in self._listed)
        return tuple(
            (name, keys.toString(QKeySequence.SequenceFormat.NativeText)) for name, keys in named if not keys.isEmpty()
        )

    def with_icons(self) -> tuple[tuple[QAction, str], ...]:
        """The actions that have an icon, and its name."""
        return tuple((each, str(each.data())) for each in self._listed if each.data())

    def _action(self, text: str, shortcut: str, icon: str = "") -> QAction:
        action = QAction(text, self._window)
        action.setData(icon)
        if shortcut:
            action.setShortcut(QKeySequence(shortcut))
            action.setToolTip(f"{_plain(text)} ({shortcut})")
        self._window.addAction(action)
        self._listed.append(action)
        return action

    def _fill_menus(self) -> None:
        menus: dict[str, list[QAction | None]] = {
            "&File": [self.new_chat, self.models, self.restart_engine, None, self.quit],
            "&Edit": [self.write, self.stop, None, self.regenerate, self.copy_answer],
            "&View": [self.tree, self.generation, None, self.full_screen],
            "&Help": [self.shortcuts, self.log_folder, None, self.about],
        }
        for title, actions in menus.items():
            menu = self._window.menuBar().addMenu(title)
            for action in actions:
                if action is None:
                    menu.addSeparator()
                else:
                    menu.addAction(action)


def _plain(text: str) -> str:
    """The text of an action without what only a menu needs."""
    return text.replace("&", "").rstrip("…")
