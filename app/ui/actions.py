"""Everything the window can be told to do, with its shortcut, as the menus show it."""

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMainWindow

from app.i18n.translation import tr
from app.system.plain_text import tip

ESCAPE = "Esc"


class Actions:
    """The actions of the window; the window connects them."""

    def __init__(self, window: QMainWindow) -> None:
        self._window = window
        self._listed: list[QAction] = []
        self._add_conversation_actions()
        self.models = self._action(tr("&Models…"), "Ctrl+M", "models")
        self.restart_engine = self._action(tr("&Restart engine"), "Ctrl+Shift+R")
        self.preferences = self._action(tr("&Preferences…"), "Ctrl+,")
        self.preferences.setMenuRole(QAction.MenuRole.PreferencesRole)
        self.quit = self._action(tr("&Quit"), "Ctrl+Q")
        self.quit.setMenuRole(QAction.MenuRole.QuitRole)
        self.stop = self._action(tr("&Stop answering"), ESCAPE)
        self.regenerate = self._action(tr("&Regenerate answer"), "Ctrl+R")
        self.previous_version = self._action(tr("Previo&us version"), "Alt+PgUp")
        self.next_version = self._action(tr("Ne&xt version"), "Alt+PgDown")
        self.copy_answer = self._action(tr("&Copy answer"), "Ctrl+Shift+C")
        self.edit_question = self._action(tr("&Edit last question"), "Ctrl+E")
        self.continue_answer = self._action(tr("C&ontinue answer"), "Ctrl+J", "continue")
        self.begin_answer = self._action(tr("Star&t the answer with…"), "Ctrl+Shift+B", "begin")
        self.attach = self._action(tr("&Attach files…"), "Ctrl+Shift+A", "attach")
        self.copy_conversation = self._action(tr("Copy con&versation"), "Ctrl+Alt+C")
        self.zoom_in = self._action(tr("Larger te&xt"), "Ctrl++", also="Ctrl+=")
        self.zoom_out = self._action(tr("&Smaller text"), "Ctrl+-")
        self.zoom_reset = self._action(tr("N&ormal text size"), "Ctrl+0")
        self.tint = self._action(tr("T&int guessed tokens"), "Ctrl+Alt+T", checkable=True)
        self.tint_chances = self._action(tr("Tint by pro&bability"), "Ctrl+Alt+P", checkable=True)
        self.speculate = self._action(tr("Spec&ulate on or off"), "Ctrl+Shift+P")
        self.save_preset = self._action(tr("Save as &preset…"), "Ctrl+Shift+S")
        self.search_chats = self._action(tr("Searc&h chats"), "Ctrl+Shift+F")
        self.write = self._action(tr("&Write a message"), "Ctrl+L")
        self.chats = self._action(tr("&Chats"), "Ctrl+B", "chats")
        self.chats.setCheckable(True)
        self.tree = self._action(tr("Speculation &tree"), "Ctrl+T", "tree")
        self.tree.setCheckable(True)
        self.telemetry = self._action(tr("Te&lemetry"), "Ctrl+Shift+T", "telemetry")
        self.telemetry.setCheckable(True)
        self.generation = self._action(tr("&Generation settings"), "Ctrl+G", "settings")
        self.palette = self._action(tr("Command &palette…"), "Ctrl+K")
        self.next_pane = self._action(tr("&Next pane"), "F6")
        self.previous_pane = self._action(tr("Pre&vious pane"), "Shift+F6")
        self.full_screen = self._action(tr("&Full screen"), "F11")
        self.full_screen.setCheckable(True)
        self.shortcuts = self._action(tr("&Keyboard shortcuts"), "F1")
        self.log_folder = self._action(tr("Open &log folder"), "Ctrl+Shift+L")
        self.copy_diagnostics = self._action(tr("Copy &diagnostics"), "Ctrl+Shift+D")
        self.about = self._action(tr("&About Coppice"), "Shift+F1")
        self.about.setMenuRole(QAction.MenuRole.AboutRole)
        self._menus: dict[QAction, str] = {}
        self._name_all()
        self._fill_menus()

    def _add_conversation_actions(self) -> None:
        self.new_chat = self._action(tr("&New chat"), "Ctrl+N", "new-chat")
        self.import_chats = self._action(tr("&Import chats…"), "Ctrl+O")
        self.export_chat = self._action(tr("&Export chat…"), "Ctrl+S")
        self.duplicate_chat = self._action(tr("D&uplicate chat"), "Ctrl+D")
        self.rename_chat = self._action(tr("Ren&ame chat"), "F2")
        self.pin_chat = self._action(tr("&Pin or unpin chat"), "Ctrl+Shift+I")
        self.move_chat = self._action(tr("Move chat to &folder…"), "Ctrl+Alt+F")
        self.delete_chat = self._action(tr("&Delete chat"), "Ctrl+Shift+Backspace")

    @property
    def commands(self) -> tuple[tuple[QAction, str], ...]:
        """Every action with the title of the menu that it stands in; `objectName` names it across sessions."""
        return tuple((each, self._menus.get(each, "")) for each in self._listed)

    @property
    def listed(self) -> tuple[tuple[str, str], ...]:
        """Name and shortcut of everything that has a shortcut."""
        named = ((plain(each.text()), each.shortcut()) for each in self._listed)
        return tuple(
            (name, keys.toString(QKeySequence.SequenceFormat.NativeText)) for name, keys in named if not keys.isEmpty()
        )

    def with_icons(self) -> tuple[tuple[QAction, str], ...]:
        """The actions that have an icon, and its name."""
        return tuple((each, str(each.data())) for each in self._listed if each.data())

    def _action(self, text: str, shortcut: str, icon: str = "", also: str = "", checkable: bool = False) -> QAction:
        action = QAction(text, self._window)
        action.setData(icon)
        action.setCheckable(checkable)
        if shortcut:
            action.setShortcuts([QKeySequence(keys) for keys in (shortcut, also) if keys])
            action.setToolTip(tip(f"{plain(text)} ({shortcut})"))
        self._window.addAction(action)
        self._listed.append(action)
        return action

    def _name_all(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, QAction):
                value.setObjectName(name)

    def _fill_menus(self) -> None:
        menus: dict[str, list[QAction | None]] = {
            tr("&File"): [
                self.new_chat,
                self.duplicate_chat,
                self.rename_chat,
                self.pin_chat,
                self.move_chat,
                self.delete_chat,
                None,
                self.import_chats,
                self.export_chat,
                None,
                self.models,
                self.restart_engine,
                None,
                self.quit,
            ],
            tr("&Edit"): [
                self.write,
                self.edit_question,
                self.stop,
                None,
                self.attach,
                self.begin_answer,
                None,
                self.regenerate,
                self.continue_answer,
                self.previous_version,
                self.next_version,
                self.copy_answer,
                self.copy_conversation,
                None,
                self.search_chats,
                None,
                self.preferences,
            ],
            tr("&View"): [
                self.chats,
                self.tree,
                self.telemetry,
                self.generation,
                self.save_preset,
                self.speculate,
                None,
                self.zoom_in,
                self.zoom_out,
                self.zoom_reset,
                self.tint,
                self.tint_chances,
                None,
                self.next_pane,
                self.previous_pane,
                None,
                self.full_screen,
            ],
            tr("&Help"): [self.palette, self.shortcuts, None, self.copy_diagnostics, self.log_folder, None, self.about],
        }
        for title, actions in menus.items():
            self._add_menu(title, actions)

    def _add_menu(self, title: str, actions: list[QAction | None]) -> None:
        """None stands for a line between two groups."""
        menu = self._window.menuBar().addMenu(title)
        for action in actions:
            if action is None:
                menu.addSeparator()
            else:
                menu.addAction(action)
                self._menus[action] = plain(title)


def plain(text: str) -> str:
    """The text of an action without what only a menu needs."""
    return text.replace("&", "").rstrip("…")
