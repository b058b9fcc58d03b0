"""A rejected guess of the tree becomes another version of the answer, in the whole window."""

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.shell.window import MainWindow
from app.tree.picture.branching import branch_text
from app.tree.picture.canvas import TreeCanvas
from app.tree.rounds.recording import recording_line
from app.tree.rounds.snapshot import snapshot
from tests.app.fake_engine import round_of as engine_round
from tests.app.fake_link import FakeLink
from tests.app.test_rounds_in_window import WORDS, converse, shown_round, text_of
from tests.app.tree.trees import round_of


def canvas(window: MainWindow) -> TreeCanvas:
    return window.tree_panel.findChildren(TreeCanvas)[0]


def middle_of(window: MainWindow, node: int) -> QPoint:
    view = canvas(window)
    assert view.picture
    box = view.picture.chip(node)
    return QPoint(round(box.x + box.width / 2 - view.origin.x), round(box.y + box.height / 2 - view.origin.y))


def offered(window: MainWindow) -> list[QAction]:
    menu = window.tree_panel.branching.menu
    return menu.actions() if menu else []


def look_at_round(qtbot: QtBot, window: MainWindow, number: int) -> None:
    window.tree_panel.player.seek(number - 1)
    qtbot.waitUntil(lambda: shown_round(window) == number)


def test_a_click_on_a_rejected_guess_continues_the_answer_from_there(
    qtbot: QtBot, window: MainWindow, link: FakeLink
) -> None:
    converse(window, link, *WORDS)
    look_at_round(qtbot, window, 3)
    first = window.chat.conversation.messages[1]
    QTest.mouseClick(canvas(window).viewport(), Qt.MouseButton.LeftButton, pos=middle_of(window, 2))
    assert [action.text() for action in offered(window)] == ["Continue from here: “·or”"]
    offered(window)[0].trigger()
    assert [each.content for each in link.last_question.chat] == ["Count, please.", "One two **three**  or"]
    assert window.chat.is_answering
    assert window.tree_panel.player.is_live, "what comes now is not seen"
    link.say(" twenty")
    link.finish()
    answer = window.chat.conversation.last_answer
    assert answer
    assert answer.text == "One two **three**  or twenty"
    assert answer.id != first.id
    assert window.chat.conversation.version(answer.id).count == 2
    qtbot.waitUntil(lambda: text_of(window).toPlainText().strip().endswith("twenty"))
    look_at_round(qtbot, window, 2)
    QTest.mouseClick(canvas(window).viewport(), Qt.MouseButton.LeftButton, pos=middle_of(window, 2))
    offered(window)[0].trigger()
    assert not window.chat.is_answering, "the round wrote a version that is not shown"


def test_keys_do_it_too_and_accepted_tokens_offer_nothing(qtbot: QtBot, window: MainWindow, link: FakeLink) -> None:
    converse(window, link, *WORDS)
    look_at_round(qtbot, window, 2)
    view = canvas(window)
    window.activateWindow()
    view.setFocus()
    qtbot.waitUntil(view.hasFocus)
    QTest.keyClick(view, Qt.Key.Key_Up)
    QTest.keyClick(view, Qt.Key.Key_Return)
    assert offered(window) == []
    QTest.keyClick(view, Qt.Key.Key_Up)  # what else was guessed stands above it, indented
    qtbot.waitUntil(lambda: view.picked[0] == 2)
    QTest.keyClick(view, Qt.Key.Key_Return)
    assert len(offered(window)) == 1
    window.tree_panel.branching.menu.close()  # type: ignore[union-attr]
    qtbot.waitUntil(lambda: window.tree_panel.branching.menu is None)


def test_no_branch_while_an_answer_is_written_and_none_by_dragging(
    qtbot: QtBot, window: MainWindow, link: FakeLink
) -> None:
    window.chat.ask("Count, please.")
    link.say(*WORDS[:2])
    look_at_round(qtbot, window, 2)
    viewport, at = canvas(window).viewport(), middle_of(window, 2)
    QTest.mousePress(viewport, Qt.MouseButton.LeftButton, pos=at)
    QTest.mouseMove(viewport, at + QPoint(60, 60))
    QTest.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=at + QPoint(60, 60))
    assert offered(window) == []
    QTest.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=middle_of(window, 2))
    [action] = offered(window)
    assert not action.isEnabled()
    assert action.text().endswith("(once the answer is written)")


def test_in_a_recording_no_branch_is_offered_and_it_is_said_why(
    qtbot: QtBot, window: MainWindow, link: FakeLink, tmp_path: Path
) -> None:
    converse(window, link, *WORDS)
    look_at_round(qtbot, window, 2)
    panel, path = window.tree_panel, tmp_path / "rounds.jsonl"
    rounds = (panel.player.history.round(place) for place in range(len(panel.player.history)))
    path.write_text("".join(recording_line(each) for each in rounds if each), encoding="utf-8")
    panel.exports.open_from(path)
    qtbot.waitUntil(lambda: panel.player.is_recording and len(panel.player.history) > 1)
    look_at_round(qtbot, window, 2)
    QTest.mouseClick(canvas(window).viewport(), Qt.MouseButton.LeftButton, pos=middle_of(window, 2))
    [action] = offered(window)
    assert not action.isEnabled()
    assert action.text().endswith("(not in a recording)")
    assert "no answer here" in action.toolTip()
    with qtbot.waitSignal(panel._header.caption.told) as told:
        panel.show_in_answer()
    assert told.args is not None
    assert "no answer here" in told.args[0]
    panel.player.go_live()
    look_at_round(qtbot, window, 2)
    QTest.mouseClick(canvas(window).viewport(), Qt.MouseButton.LeftButton, pos=middle_of(window, 2))
    [action] = offered(window)
    assert action.isEnabled()
    assert "no answer here" not in action.toolTip()


def test_a_branch_reads_from_behind_the_root_and_ends_before_half_a_character() -> None:
    tree = snapshot(
        round_of(
            [1, 2, 3, 4, 5],
            [-1, 0, 1, 2, 0],
            [0, -1, -2, -3, -4],
            (0,),
            pieces=("root", " a", "b\N{REPLACEMENT CHARACTER}", "\N{REPLACEMENT CHARACTER}", ""),
        )
    )
    assert [branch_text(tree, node) for node in range(5)] == ["", " a", " ab", " ab", ""]


def behind_an_end(silent: tuple[int, ...] | None, end: str = "<|end|>") -> list[str]:
    """The branches of a tree in which node 2 ends the answer, and node 3 stands behind it."""
    pieces = ("root", " a", end, "<|user|>", " <|b|>")
    given = round_of([1, 2, 3, 4, 5], [-1, 0, 1, 2, 1], [0, -1, -2, -3, -4], (0,), pieces=pieces)
    tree = snapshot(replace(given, tree=replace(given.tree, silent=silent)))
    return [branch_text(tree, node) for node in range(1, 5)]


def test_no_branch_leads_behind_a_token_that_writes_no_text() -> None:
    assert behind_an_end((2, 3)) == [" a", "", "", " a <|b|>"]
    assert behind_an_end((2,), "the end") == [" a", "", "", " a <|b|>"], "an end token may have any name"


def test_in_rounds_of_older_versions_special_tokens_are_known_by_their_names() -> None:
    for end in ("<|end|>", "<｜end▁of▁sentence｜>", "</s>", "<end_of_turn>"):
        assert behind_an_end(None, end) == [" a", "", "", " a <|b|>"]


def test_nothing_is_offered_behind_the_end_of_an_answer(qtbot: QtBot, window: MainWindow, link: FakeLink) -> None:
    window.chat.ask("Count, please.")
    request = link.last_question.id
    told = engine_round(request, 0, "One ")
    link.answer(replace(told, tree=replace(told.tree, silent=(2,))))
    link.finish()
    look_at_round(qtbot, window, 1)
    QTest.mouseClick(canvas(window).viewport(), Qt.MouseButton.LeftButton, pos=middle_of(window, 2))
    assert offered(window) == []
