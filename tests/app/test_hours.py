"""What hours leave behind: what a person does again and again adds no object of Qt, no thread and no open file."""

import gc
import threading
from collections import Counter
from collections.abc import Callable

import psutil
import pytest
import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.shell.window import MainWindow
from tests.app.fake_link import FakeLink
from tests.campaigns.extent import choose

REPEATS = choose(4, 60)

Deed = Callable[[MainWindow, FakeLink, QtBot], None]


def ask(window: MainWindow, link: FakeLink, _qtbot: QtBot) -> None:
    """In a new chat: what is kept of one grows with it."""
    window.actions_.new_chat.trigger()
    window.chat.ask("Which tree?")
    link.say("A larch. ", "```python\nx = 1\n```\n")
    link.finish()


def ask_again(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    ask(window, link, qtbot)
    window.chat.regenerate()
    link.say("An *elm*.")
    link.finish()
    window.chat.edit(window.chat.conversation.messages[0].id, "Which flower?")
    link.finish()


def lose_engine(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    ask(window, link, qtbot)
    window.chat.ask("And then?")
    link.say("Then")
    link.die()
    link.become_ready()


def change_look(window: MainWindow, _link: FakeLink, _qtbot: QtBot) -> None:
    for theme, size, width in (("dark", 120, 900), ("light", 100, 1200)):
        window.settings.change(theme=theme, text_size=size)
        window.program.theme.follow(window.settings.current)
        window.resize(width, 700)
        QApplication.processEvents()


def open_dialogs(window: MainWindow, _link: FakeLink, _qtbot: QtBot) -> None:
    do = window.actions_
    for action in (do.preferences, do.models, do.server, do.palette, do.shortcuts, do.about, do.generation, do.compare):
        action.trigger()
        for dialog in (each for each in QApplication.topLevelWidgets() if each.isVisible() and each is not window):
            dialog.close()


def show_panes(window: MainWindow, _link: FakeLink, _qtbot: QtBot) -> None:
    for action in (window.actions_.telemetry, window.actions_.tree, window.actions_.chats):
        action.trigger()
        QApplication.processEvents()
        action.trigger()


def open_window(window: MainWindow, _link: FakeLink, qtbot: QtBot) -> None:
    window.program.show_new_window()
    qtbot.waitUntil(lambda: len(window.program.windows) == 2 and window.program.windows[-1].tree.is_made)
    window.program.windows[-1].close()


def search(window: MainWindow, _link: FakeLink, qtbot: QtBot) -> None:
    field = window.conversations.panel.search
    field.setText("larch")
    qtbot.waitUntil(lambda: not window.conversations.panel._awaits_found)
    field.clear()


def held() -> Counter[str]:
    """All objects of Qt that can be reached, by their classes; threads and open files."""
    for _ in range(3):
        QApplication.processEvents()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()
    found: dict[int, str] = {}
    rest: list[QObject] = [*QApplication.allWidgets()]
    rest += [each for each in shiboken6.getAllValidWrappers() if isinstance(each, QObject)]
    while rest:
        each = rest.pop()
        place, *_ = shiboken6.getCppPointer(each)
        if place not in found:
            found[place] = each.metaObject().className()
            rest += each.children()
    return Counter(found.values()) + Counter(threads=threading.active_count(), files=len(psutil.Process().open_files()))


DEEDS: tuple[Deed, ...] = (ask, ask_again, lose_engine, change_look, open_dialogs, show_panes, open_window, search)


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_nothing_is_left_of(deed: Deed, window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    ask_again(window, link, qtbot)
    for _ in range(3):  # what is made once is made now
        deed(window, link, qtbot)
    assert grown_by(lambda: deed(window, link, qtbot)) == {}


def grown_by(deed: Callable[[], None]) -> dict[str, int]:
    """What every deed leaves behind. A busy machine makes things late, which looks like that once, but not again."""
    for _ in range(3):
        before = held()
        for _ in range(REPEATS):
            deed()
        grown = {name: count for name, count in (held() - before).items() if count >= REPEATS}
        if not grown:
            break
    return grown
