"""Everything the window can be told to do: every command declared once, with its shortcut, its menu and its icon."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMainWindow, QMenu

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip


@dataclass(frozen=True, slots=True)
class Command:
    """`name` is the attribute of `Actions` that has the action, and names the command across sessions.

    `repeats`: it is done again as long as its keys are held. `everywhere`: its keys also work in a dialog beside the
    window.
    """

    name: str
    text: str
    keys: str
    icon: str = ""
    also: str = ""
    checkable: bool = False
    repeats: bool = True
    everywhere: bool = False
    role: QAction.MenuRole = QAction.MenuRole.TextHeuristicRole


MENUS: Mapping[str, tuple[Command | None, ...]] = {
    mark("&File"): (
        Command("new_chat", mark("&New chat"), "Ctrl+N", icon="new-chat", everywhere=True),
        Command("new_window", mark("New &window"), "Ctrl+Shift+M", repeats=False, everywhere=True),
        Command("open_in_window", mark("Open &chat in new window"), "Ctrl+Shift+O", repeats=False),
        Command("close_window", mark("Clo&se window"), "Ctrl+W", repeats=False),
        Command("duplicate_chat", mark("D&uplicate chat"), "Ctrl+D"),
        Command("rename_chat", mark("Ren&ame chat"), "F2"),
        Command("pin_chat", mark("&Pin or unpin chat"), "Ctrl+Shift+I"),
        Command("move_chat", mark("Mo&ve chat to folder…"), "Ctrl+Alt+F"),
        Command("delete_chat", mark("&Delete chat"), "Ctrl+Shift+Backspace"),
        Command("deleted_chats", mark("Recentl&y deleted chats…"), "Ctrl+Alt+Z"),
        None,
        Command("import_chats", mark("&Import chats…"), "Ctrl+O"),
        Command("import_folder", mark("Import folder of c&hats…"), "Ctrl+Alt+O"),
        Command("export_chat", mark("&Export chat…"), "Ctrl+S"),
        Command("export_all", mark("E&xport all chats…"), "Ctrl+Alt+S"),
        Command("export_picture", mark("Export picture of the &tree…"), "Ctrl+Alt+G"),
        Command("export_animation", mark("Exp&ort animation of the answer…"), "Ctrl+Alt+M"),
        None,
        Command("quit", mark("&Quit"), "Ctrl+Q", everywhere=True, role=QAction.MenuRole.QuitRole),
    ),
    mark("&Edit"): (
        Command("write", mark("&Write a message"), "Ctrl+L", everywhere=True),
        Command("edit_question", mark("&Edit last question"), "Ctrl+E"),
        Command("stop", mark("&Stop answering"), "Esc"),
        None,
        Command("attach", mark("&Attach files or pictures…"), "Ctrl+Shift+A", icon="attach"),
        Command("begin_answer", mark("Star&t the answer with…"), "Ctrl+Shift+B", icon="begin"),
        None,
        Command("regenerate", mark("&Regenerate answer"), "Ctrl+R"),
        Command("continue_answer", mark("C&ontinue answer"), "Ctrl+J", icon="continue"),
        Command("previous_version", mark("Previo&us version"), "Alt+PgUp"),
        Command("next_version", mark("Ne&xt version"), "Alt+PgDown"),
        Command("compare", mark("Co&mpare answers…"), "Ctrl+Shift+E", icon="compare"),
        Command("copy_answer", mark("&Copy answer"), "Ctrl+Shift+C"),
        Command("copy_conversation", mark("Copy con&versation"), "Ctrl+Alt+C"),
        Command("copy_picture", mark("Copy p&icture of the tree"), "Ctrl+Alt+I"),
        None,
        Command("find", mark("&Find in this chat"), "Ctrl+F"),
        Command("find_next", mark("Fi&nd next"), "F3"),
        Command("find_previous", mark("Fin&d previous"), "Shift+F3"),
        Command("search_chats", mark("Searc&h chats"), "Ctrl+Shift+F", everywhere=True),
        None,
        Command("preferences", mark("&Preferences…"), "Ctrl+,", everywhere=True, role=QAction.MenuRole.PreferencesRole),
    ),
    mark("&View"): (
        Command("chats", mark("&Chats"), "Ctrl+B", icon="chats", checkable=True),
        Command("tree", mark("Speculation &tree"), "Ctrl+T", icon="tree", checkable=True),
        Command("telemetry", mark("Te&lemetry"), "Ctrl+Shift+T", icon="telemetry", checkable=True),
        None,
        Command("zoom_in", mark("Larger te&xt"), "Ctrl++", also="Ctrl+=", everywhere=True),
        Command("zoom_out", mark("&Smaller text"), "Ctrl+-", everywhere=True),
        Command("zoom_reset", mark("N&ormal text size"), "Ctrl+0", everywhere=True),
        Command("tint", mark("T&int guessed tokens"), "Ctrl+Alt+T", checkable=True),
        Command("tint_chances", mark("Tint by pro&bability"), "Ctrl+Alt+P", checkable=True),
        None,
        Command("next_pane", mark("&Next pane"), "F6"),
        Command("previous_pane", mark("Pre&vious pane"), "Shift+F6"),
        None,
        Command("full_screen", mark("&Full screen"), "F11", checkable=True),
    ),
    mark("&Model"): (
        Command("models", mark("&Models…"), "Ctrl+M", icon="models", everywhere=True),
        Command("unload", mark("Unload model &from memory"), "Ctrl+Alt+U", repeats=False, everywhere=True),
        Command("restart_engine", mark("&Restart engine"), "Ctrl+Shift+R", everywhere=True),
        Command("server", mark("&Local server…"), "Ctrl+Shift+N", everywhere=True),
        None,
        Command("generation", mark("&Generation settings"), "Ctrl+G", icon="settings"),
        Command("save_preset", mark("Save as &preset…"), "Ctrl+Shift+S"),
        Command("speculate", mark("Spec&ulate on or off"), "Ctrl+Shift+P"),
        Command("chat_tools", mark("&Tools of this chat…"), "Ctrl+Shift+K", icon="tools"),
    ),
    mark("&Help"): (
        Command("palette", mark("Command &palette…"), "Ctrl+K", everywhere=True),
        Command("shortcuts", mark("&Keyboard shortcuts"), "F1", everywhere=True),
        Command("tour", mark("Show the &tour"), "Ctrl+F1"),
        None,
        Command("copy_diagnostics", mark("Copy &diagnostics"), "Ctrl+Shift+D", everywhere=True),
        Command("log_folder", mark("Open &log folder"), "Ctrl+Shift+L", everywhere=True),
        None,
        Command("about", mark("&About Coppice"), "Shift+F1", everywhere=True, role=QAction.MenuRole.AboutRole),
    ),
}
"""The commands by the titles of their menus, which the command palette shows too; None is a line between two groups."""


EMPTY = mark("This chat is empty.")  # what hinders commands that are for a chat, or what is in it


class CommandAction(QAction):
    """The action of a command. `hindrance`: why it cannot be carried out now, as a sentence; empty where it can be."""

    hindrance = ""

    def offer(self, hindrance: str = "") -> None:
        """Have it be on, or off for this reason, which its tooltip and the palette tell; see `app.ui.widgets.offer`."""
        self.hindrance = hindrance
        self.setEnabled(not hindrance)
        told = f"{plain(self.text())} ({shown_keys(self)})"
        self.setToolTip(tip(f"{told}\n{hindrance}" if hindrance else told))


class Actions:
    """The actions of the window, by the names of their commands; who carries a command out registers for it."""

    def __init__(self, window: QMainWindow) -> None:
        self._menus: dict[CommandAction, str] = {}
        self.everywhere: list[QAction] = []
        self._actions: dict[str, CommandAction] = {}
        for title, commands in MENUS.items():
            menu = window.menuBar().addMenu(tr(title))
            menu.aboutToShow.connect(partial(_tell_hindrances, menu))
            for command in commands:
                if command is None:
                    menu.addSeparator()
                else:
                    action = self._actions[command.name] = _action(command, window)
                    menu.addAction(action)
                    if command.everywhere:
                        self.everywhere.append(action)
                    self._menus[action] = plain(tr(title))

    def __getattr__(self, name: str) -> CommandAction:
        try:
            return self._actions[name]
        except KeyError:
            raise AttributeError(name) from None

    def register(self, **handlers: Callable[..., object]) -> None:
        """Have commands, by their names, call these; a handler of one that is on or off may take which it is."""
        for name, handler in handlers.items():
            self._actions[name].triggered.connect(handler)

    @property
    def commands(self) -> tuple[tuple[CommandAction, str], ...]:
        """Every action with the title of the menu that it stands in; `objectName` names it across sessions."""
        return tuple(self._menus.items())

    @property
    def listed(self) -> tuple[tuple[str, str], ...]:
        """Name and shortcut of everything that has a shortcut."""
        named = ((plain(each.text()), shown_keys(each)) for each in self._menus)
        return tuple((name, keys) for name, keys in named if keys)

    def with_icons(self) -> tuple[tuple[QAction, str], ...]:
        """The actions that have an icon, and its name."""
        return tuple((each, str(each.data())) for each in self._menus if each.data())


def _tell_hindrances(menu: QMenu) -> None:
    """The tips of the others say nothing that does not stand in the menu."""
    menu.setToolTipsVisible(not all(each.isEnabled() for each in menu.actions()))


def _action(command: Command, window: QMainWindow) -> CommandAction:
    action = CommandAction(tr(command.text), window)
    action.setObjectName(command.name)
    action.setData(command.icon)
    action.setCheckable(command.checkable)
    action.setIconVisibleInMenu(not command.checkable)  # in its place stands the mark that it is on
    action.setAutoRepeat(command.repeats)
    action.setMenuRole(command.role)
    action.setShortcuts([QKeySequence(keys) for keys in (command.keys, command.also) if keys])
    action.offer()
    window.addAction(action)
    return action


def shown_keys(action: QAction) -> str:
    """Its shortcut as keyboards of the person's language have it; empty without one."""
    return action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)


def plain(text: str) -> str:
    """The text of an action without what only a menu needs."""
    return text.replace("&", "").rstrip("…")
