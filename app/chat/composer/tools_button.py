"""The button that says how many tools answers may call, and its menu that switches them off and on for a chat."""

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from app.chat.generation.tool_run import full_name, tools_on
from app.i18n.translation import tr
from app.settings.generation import GenerationSettings
from app.system.plain_text import tip, unsteered
from app.tools.toolbox import OfferedTool
from app.ui.theme import Colors, icon

_MOST_NAMED = 12  # tools in a tooltip
_LONGEST_NAME = 48


class StayingMenu(QMenu):
    """A menu that stays open while things in it are switched off and on."""

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """A click on a switch leaves the menu open."""
        if not self._switch(self.actionAt(event.position().toPoint())):
            super().mouseReleaseEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """So do Space and Enter."""
        is_press = event.key() in (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if not (is_press and self._switch(self.activeAction())):
            super().keyPressEvent(event)

    def _switch(self, action: QAction | None) -> bool:
        if action is None or not action.isCheckable() or not action.isEnabled():
            return False
        action.trigger()
        return True


class ToolsButton(QToolButton):
    """Hidden where there are no tools. `chosen` carries all that are to be off, also those that are not there now."""

    chosen = Signal(tuple)
    preferences_wanted = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("quiet-words")
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setIconSize(QSize(16, 16))
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._offered: tuple[OfferedTool, ...] = ()
        self._off: tuple[str, ...] = ()
        self._on = 0
        self._menu = StayingMenu(self)
        self._menu.setToolTipsVisible(True)
        self._menu.aboutToShow.connect(self._fill)
        self.setMenu(self._menu)
        self.show_tools((), GenerationSettings())

    def show_tools(self, offered: Sequence[OfferedTool], generation: GenerationSettings) -> None:
        """Say how many of the tools that there are a chat with these settings may call."""
        self._offered, self._off = tuple(offered), generation.tools_off
        on = tools_on(self._offered, generation)
        self._on = len(on)
        self.setText(tr("%n tools", n=self._on) if on else tr("Tools off"))
        self.setVisible(bool(offered))
        names = [f"{_shown(each.name)} ({_shown(each.server)})" for each in on[:_MOST_NAMED]]
        more = tr("and %n more", n=self._on - _MOST_NAMED) if self._on > _MOST_NAMED else ""
        told = tr("Answers of this chat may call:") if on else tr("Answers of this chat call no tools.")
        click = tr("Click to switch tools off and on for this chat (Ctrl+Shift+K).")
        lines = [told, *names, *filter(None, [more]), click]
        self.setToolTip(tip("\n".join(lines)))
        self.setAccessibleName(self.text())
        self.setAccessibleDescription(click)

    def open_menu(self) -> None:
        """Show the menu, also to who has no mouse."""
        self._menu.popup(self.mapToGlobal(self.rect().topLeft()))

    def set_theme(self, colors: Colors) -> None:
        """Draw it in other colours."""
        self.setIcon(icon("tools", colors.accent if self._on else colors.muted))

    def _fill(self) -> None:
        """The tools of each server below its name, as they are now."""
        menu = self._menu
        menu.clear()
        for words, off in ((tr("All on"), ()), (tr("All off"), tuple(map(full_name, self._offered)))):
            menu.addAction(words).triggered.connect(partial(self._choose, off))
        for server, tools in groupby(self._offered, lambda each: each.server):
            menu.addSeparator()
            heading = menu.addAction(_escaped(server))
            heading.setEnabled(False)
            for tool in tools:
                action = menu.addAction(_escaped(tool.name))
                action.setCheckable(True)
                action.setChecked(full_name(tool) not in self._off)
                action.setToolTip(tip(tool.description or tool.name))
                action.toggled.connect(lambda on, tool=tool: self._switch(tool, on))
        menu.addSeparator()
        menu.addAction(tr("Tools in Preferences…")).triggered.connect(self.preferences_wanted)

    def _switch(self, tool: OfferedTool, on: bool) -> None:
        off = [each for each in map(full_name, self._offered) if each in self._off and each != full_name(tool)]
        self._choose(tuple(off) if on else (*off, full_name(tool)))

    def _choose(self, off: tuple[str, ...], *_: object) -> None:
        """What was switched off of servers that are not on now stays so."""
        here = set(map(full_name, self._offered))
        self.chosen.emit((*(each for each in self._off if each not in here), *off))


def _shown(name: str) -> str:
    name = unsteered(name)
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


def _escaped(name: str) -> str:
    """A name in a menu, where `&` would mark a letter."""
    return _shown(name).replace("&", "&&")
