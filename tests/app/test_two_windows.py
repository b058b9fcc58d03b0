"""Two windows over one engine: each has its own chat, list, answers and stops; what they share is said once."""

from collections.abc import Callable
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import QByteArray, QCoreApplication
from PySide6.QtGui import QAction
from pytestqt.qtbot import QtBot

from app.chat.archive.store import Store
from app.chat.conversations import SAVING_NOTICE
from app.chat.history.message import AnswerEnding
from app.chat.history.records import MessageRecord
from app.chat.sidebar.rows import ChatRow
from app.shell.instance import Instance
from app.shell.lifecycle import Lifecycle
from app.shell.window import ENGINE_NOTICE, MainWindow
from app.ui.notices import Notice
from engine.protocol.messages import Cancel, Finished, Generate, Prefilled, Queued, Statistics
from engine.protocol.watching import Watch
from tests.app.fake_engine import finished, round_of
from tests.app.fake_link import FakeLink
from tests.app.tree.exports.rounds import answer
from tests.app.tree.exports.test_animations import dialog_of


@pytest.fixture
def other(window: MainWindow, qtbot: QtBot) -> MainWindow:
    """A second window, opened as a person would."""
    window.actions_.new_window.trigger()
    return wait_for_another(window, qtbot)


def wait_for_another(window: MainWindow, qtbot: QtBot) -> MainWindow:
    program = window.program
    qtbot.waitUntil(lambda: len(program.windows) == 2 and program.windows[-1].isVisible())
    made = program.windows[-1]
    made.tree.make_panel()
    return made


def ask(window: MainWindow, question: str) -> int:
    """Ask; returns the request's id."""
    window.chat.ask(question)
    link = window.link
    assert isinstance(link, FakeLink)
    return link.last_question.id


def text(window: MainWindow) -> str:
    """What the window has of its last answer."""
    answer = window.chat.conversation.last_answer
    assert answer is not None
    return answer.text


def ending(window: MainWindow) -> AnswerEnding:
    answer = window.chat.conversation.last_answer
    assert answer is not None
    return answer.ending


def keys(window: MainWindow) -> list[str]:
    return [each.key for each in window.notices.notices]


def titles(window: MainWindow) -> list[str]:
    model = window.conversations.panel.model
    rows = (model.row(model.index(place, 0)) for place in range(model.rowCount()))
    return [each.record.shown_title for each in rows if isinstance(each, ChatRow)]


def menu_entry(window: MainWindow, title: str, words: str) -> QAction:
    """What the menu of a chat in the list offers."""
    panel = window.conversations.panel
    record = next(each for each in window.program.chats.records if each.shown_title == title)
    row = panel.model.row(panel.model.index_of(record.id))
    assert isinstance(row, ChatRow)
    return next(each for each in panel.menu_of(row).actions() if each.text() == words)


def test_a_second_window_stands_beside_the_first_and_knows_what_it_knows(
    window: MainWindow, other: MainWindow, link: FakeLink
) -> None:
    assert other.program is window.program
    assert window.program.front is other
    assert 0 <= window.width() - other.width() <= 36, "as wide, as far as the screen has room behind it"
    assert other.screen().availableGeometry().bottom() >= other.geometry().bottom()
    assert (other.pos() - window.pos()).x() == (other.pos() - window.pos()).y() > 0
    assert other.status_area.words.text() == window.status_area.words.text() != "Starting engine"
    assert other.chat.conversation.id != window.chat.conversation.id
    assert link.said == ["start"], "one engine"


def test_a_pane_that_floats_does_not_cover_that_of_the_other_window(window: MainWindow, qtbot: QtBot) -> None:
    window.tree_dock.setFloating(True)
    window.tree_dock.move(40, 30)
    window.actions_.new_window.trigger()
    other = wait_for_another(window, qtbot)
    assert other.tree_dock.isFloating()
    qtbot.waitUntil(other.tree_dock.isVisible)  # behind its window, which would cover it otherwise
    apart = other.tree_dock.pos() - window.tree_dock.pos()
    assert apart.x() == apart.y() > 0
    assert not other.chats_dock.isFloating()


def test_a_pane_that_floats_is_on_the_screen_as_a_whole_and_after_its_window(
    window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = window.screen().availableGeometry()
    window.tree_dock.setFloating(True)
    window.tree_dock.move(room.right() - window.tree_dock.width() - 10, room.bottom() - window.tree_dock.height() - 10)
    order: list[str] = []
    monkeypatch.setattr(MainWindow, "_show_floating", lambda one: order.append(str(one.tree_dock.isVisible())))
    window.actions_.new_window.trigger()
    other = wait_for_another(window, qtbot)
    qtbot.waitUntil(lambda: bool(order))
    assert order == ["False"], "it waits for its window"
    assert room.contains(other.tree_dock.geometry())


def test_both_ask_at_once_and_each_hears_its_own_answer(
    window: MainWindow, other: MainWindow, link: FakeLink, qtbot: QtBot
) -> None:
    one, two = ask(window, "A fox?"), ask(other, "A bear?")
    sent = [each for each in link.sent if isinstance(each, Generate)]
    assert [(each.id, each.asker) for each in sent] == [(one, 1), (two, 2)]
    link.answer(Queued(two, 1))
    figures = other.chat_panel.view.answers[-1].figures
    qtbot.waitUntil(lambda: figures.text.startswith("Waiting: 1 request"))
    states = [each.status_area.words for each in (window, other)]
    assert [each.text() for each in states] == ["Answering", figures.text]
    link.answer(
        Prefilled(one, 9, 0, 0.1), round_of(one, 0, "Red"), Prefilled(two, 7, 0, 0.1), round_of(two, 0, "Brown")
    )
    assert [each.text() for each in states] == ["Answering", "Answering"]
    rounds = [each.tree_panel.player.current for each in (window, other)]
    assert [each and each.id for each in rounds] == [one, two]
    link.answer(finished(one, "stop", 1))
    assert (text(window), window.chat.is_answering) == ("Red", False)
    assert (text(other), other.chat.is_answering) == ("Brown", True)
    assert len(window.telemetry.history.rows) == len(other.telemetry.history.rows) == 1
    assert sorted(titles(window)) == sorted(titles(other)) == ["A bear?", "A fox?"]
    assert (window.windowTitle(), other.windowTitle()) == ("A fox? – Coppice", "A bear? – Coppice")


def test_a_stop_ends_the_answer_of_its_window_alone(window: MainWindow, other: MainWindow, link: FakeLink) -> None:
    one, two = ask(window, "A fox?"), ask(other, "A bear?")
    other.actions_.stop.trigger()
    assert link.sent[-1] == Cancel(two, 2)
    assert two > one, "by the number alone the other answer would end as well"
    link.answer(Finished(two, "cancelled"), round_of(one, 0, "Red"))
    assert (ending(window), ending(other)) == (AnswerEnding.OPEN, AnswerEnding.STOPPED)
    assert text(window) == "Red"


def test_a_conversation_has_one_window(window: MainWindow, other: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    ask(window, "A fox?")
    link.say("Red")
    link.finish()
    ask(other, "A bear?")
    link.finish()
    fox, bear = window.chat.conversation.id, other.chat.conversation.id
    assert window.program.front is other
    other.conversations.panel.opened.emit(fox)
    assert window.program.front is window, "it comes forward instead"
    assert other.chat.conversation.id == bear
    entry = menu_entry(window, "A fox?", "Open in new window")
    assert not entry.isEnabled(), "it has this one"
    assert "shown in this window" in entry.toolTip()
    assert not window.actions_.open_in_window.isEnabled()
    menu_entry(other, "A fox?", "Open in new window").trigger()
    assert len(window.program.windows) == 2
    window.actions_.new_chat.trigger()
    other.conversations.panel.opened.emit(fox)
    window.conversations.panel.opened.emit(fox)
    qtbot.waitUntil(lambda: other.chat.conversation.id == fox)
    assert window.chat.conversation.is_empty, "it was on its way to the other window"


def test_words_that_are_found_in_the_chat_of_another_window_are_shown_there(
    window: MainWindow, other: MainWindow, link: FakeLink, qtbot: QtBot
) -> None:
    ask(window, "A fox?")
    link.finish()
    fox, message = window.chat.conversation.id, window.chat.conversation.messages[0].id
    panel = other.conversations.panel
    panel.hit_opened.emit(fox, "fox", message)
    panel.opened.emit(fox)
    assert window.program.front is window
    assert window.chat_panel.find_bar.is_open
    window.actions_.new_chat.trigger()
    panel.opened.emit(fox)
    qtbot.waitUntil(lambda: other.chat.conversation.id == fox)
    QCoreApplication.processEvents()
    assert not other.chat_panel.find_bar.is_open, "it was shown already"


def unreadable(_store: Store, _conversation: int) -> list[MessageRecord]:
    raise OSError(5, "Input/output error")


def test_a_chat_that_could_not_be_opened_is_free_for_another_window(
    window: MainWindow, other: MainWindow, link: FakeLink, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(window, "A fox?")
    link.finish()
    fox = window.chat.conversation.id
    window.actions_.new_chat.trigger()
    autosave = window.conversations.autosave
    with monkeypatch.context() as broken, qtbot.waitSignal(window.program.chats.archive.open_failed):
        broken.setattr(Store, "messages", unreadable)
        autosave.open(fox)
    assert not autosave.holds(fox)
    qtbot.waitUntil(lambda: keys(window) == keys(other) == [SAVING_NOTICE])
    autosave.open(fox)
    other.conversations.delete(fox)
    assert not autosave.holds(fox), "it was deleted on its way"
    other.conversations.undo_delete()
    qtbot.waitUntil(lambda: other.chat.conversation.id == fox)
    assert window.chat.conversation.is_empty


def test_a_chat_of_the_list_opens_in_a_window_of_its_own(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    ask(window, "A fox?")
    link.say("Red")
    link.finish()
    fox = window.chat.conversation.id
    window.actions_.new_chat.trigger()
    menu_entry(window, "A fox?", "Open in new window").trigger()
    other = wait_for_another(window, qtbot)
    qtbot.waitUntil(lambda: other.chat.conversation.id == fox)
    assert text(other) == "Red"
    other.conversations.panel.renamed.emit(fox, "Vixen")
    assert titles(window) == ["Vixen"]
    window.actions_.new_chat.trigger()
    window.conversations.panel.duplicated.emit(fox)
    qtbot.waitUntil(lambda: window.chat.conversation.messages != ())
    assert titles(other) == ["Vixen (copy)", "Vixen"]
    assert other.chat.conversation.id == fox, "the copy is shown where it was wanted"
    window.conversations.delete(fox)
    assert other.chat.conversation.is_empty
    assert titles(other) == ["Vixen (copy)"]


def test_a_window_that_closes_ends_its_answer_and_leaves_the_other(
    window: MainWindow, other: MainWindow, link: FakeLink, qtbot: QtBot
) -> None:
    panel = other.tree_panel
    one, two = ask(window, "A fox?"), ask(other, "A bear?")
    link.answer(round_of(two, 0, "Brown"))
    window.tree_panel.command_wanted.emit(Watch(verdicts=True))
    panel.command_wanted.emit(Watch(drafts=True))
    assert link.looks[-1] == Watch(verdicts=True, drafts=True), "what any window wants to see"
    bear = other.chat.conversation.id
    other.actions_.close_window.trigger()
    assert Cancel(two, 2) in link.sent
    assert link.looks[-1] == Watch(verdicts=True), "what the other one wants to see"
    assert not [each for each in link.sent if isinstance(each, Cancel) and each.asker != 2]
    qtbot.waitUntil(lambda: not shiboken6.isValid(other))
    link.answer(Finished(two, "cancelled", "", Statistics()), round_of(one, 0, "Red"), finished(one, "stop", 1))
    assert text(window) == "Red"
    assert window.program.front is window
    assert "close" not in link.said
    window.conversations.panel.opened.emit(bear)
    qtbot.waitUntil(lambda: window.chat.conversation.id == bear)
    assert (text(window), ending(window)) == ("Brown", AnswerEnding.STOPPED)
    link.die()
    window.close()
    assert link.said[-1] == "close"


def test_the_first_window_may_go_before_the_second(window: MainWindow, other: MainWindow, link: FakeLink) -> None:
    dialog = window.program.server.dialog
    window.program.models.open()
    window.close()
    other.program.server.open()
    assert dialog.isVisible()
    assert dialog.parentWidget() is other
    dialog.close()
    other.open_models()
    assert other.models.is_open
    other.models.leave(other)
    assert not other.models.dialog.isVisible()
    ask(other, "A bear?")
    link.say("Brown")
    assert text(other) == "Brown"
    link.finish()


def test_a_dead_engine_is_told_in_every_window_and_in_those_to_come(
    window: MainWindow, other: MainWindow, link: FakeLink, qtbot: QtBot
) -> None:
    link.die()
    assert keys(window) == keys(other) == [ENGINE_NOTICE]
    other.close()
    window.actions_.new_window.trigger()
    third = wait_for_another(window, qtbot)
    assert keys(third) == [ENGINE_NOTICE]
    link.become_ready()
    assert keys(window) == keys(third) == []


def test_what_concerns_the_program_outlives_the_window_that_said_it(window: MainWindow, other: MainWindow) -> None:
    program = window.program
    program.tell(Notice("crash-report", "The last time"))
    program.tell(Notice("news", "Newer"))
    other.notices.add(Notice("of-its-chat", "A file"))
    window.notices.add(Notice("news", "Newest"))
    other.notices.dismiss("news")
    program.tell(Notice("news", "Newer"))
    other.close()
    assert [each.message for each in window.notices.notices] == ["Newest", "The last time"]
    program.withdraw("crash-report")
    assert keys(window) == ["news"]


def test_an_animation_ends_with_its_window(window: MainWindow, other: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    dialog = dialog_of(other.tree_panel, answer(40))
    dialog.begin(folder / "a.webp")
    qtbot.waitUntil(lambda: len(list(folder.iterdir())) == 1)
    other.close()
    qtbot.waitUntil(lambda: not list(folder.iterdir()))
    assert window.isVisible()


def test_a_later_start_opens_its_file_in_the_window_in_front(
    window: MainWindow, other: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: dict[MainWindow, list[Path]] = {window: [], other: []}
    for each, paths in opened.items():
        monkeypatch.setattr(each.tree_panel.exports, "open_from", paths.append)
    life = Lifecycle(window.program, Instance(tmp_path))
    window.showMaximized()
    window.showMinimized()
    window.program.on_activated(window)
    life.on_asked("a.coppice")
    assert opened == {window: [Path("a.coppice")], other: []}
    assert window.isMaximized(), "as large as before"
    assert not window.isMinimized()


def test_a_key_that_is_held_opens_one_window(window: MainWindow) -> None:
    assert not window.actions_.new_window.autoRepeat()
    assert not window.actions_.open_in_window.autoRepeat()
    assert window.actions_.zoom_in.autoRepeat()


def test_quitting_closes_all_windows(window: MainWindow, other: MainWindow, link: FakeLink) -> None:
    closed: list[bool] = []
    window.program.closing.connect(lambda: closed.append(True))
    window.resize(777, 555)
    window.program.on_activated(window)
    ask(other, "A bear?")
    window.actions_.quit.trigger()
    assert not window.isVisible()
    assert not other.isVisible()
    assert closed == [True]
    assert ending(other) is AnswerEnding.OPEN, "nobody has stopped it"
    window.resize(600, 600)
    window.restoreGeometry(QByteArray.fromBase64(window.settings.current.geometry.encode()))
    assert window.height() == 555 != other.height(), "the next start begins with the window in front"
    assert link.said[-1] == "close"
    other.deleteLater()


def test_what_one_window_searches_the_other_does_not_find(
    window: MainWindow, other: MainWindow, link: FakeLink, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(window, "A fox?")
    link.finish()
    found: dict[MainWindow, list[Callable[[], object]]] = {window: [], other: []}
    for each, got in found.items():
        monkeypatch.setattr(each.conversations.panel, "show_found", got.append)
    archive = window.program.chats.archive
    with qtbot.waitSignals([archive.found, archive.found]):
        window.conversations.panel.search_requested.emit("fox")
        other.conversations.panel.search_requested.emit("bear")
    qtbot.waitUntil(lambda: all(found.values()))
    assert [len(got) for got in found.values()] == [1, 1]


def test_a_window_that_closes_reads_nothing_ahead_any_more(
    window: MainWindow, other: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread would wait for turns that nobody gives, and the program for its thread."""
    stopped = list[MainWindow]()
    for each in (window, other):
        monkeypatch.setattr(each.deferred, "stop", lambda each=each: stopped.append(each))
    other.close()
    assert stopped == [other]
    window.close()
    assert stopped == [other, window]
