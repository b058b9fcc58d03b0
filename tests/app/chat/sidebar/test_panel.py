"""The list of conversations: its groups, and what a person does with mouse and keys."""

import datetime
from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QModelIndex, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDockWidget, QInputDialog, QLineEdit, QMainWindow
from pytestqt.qtbot import QtBot

from app.chat.history.records import HIT_BEGIN, HIT_END, ConversationRecord, SearchHit
from app.chat.sidebar.panel import ConversationsPanel
from app.chat.sidebar.rows import ChatRow, HeaderRow, Row, hit_rows, rows_of
from app.ui.theme import DARK, LIGHT

NOON = datetime.datetime(2026, 11, 20, 12).astimezone().timestamp()
DAY = 24 * 3600.0


def chat(identity: int, title: str, days: float = 0.0, folder: str = "", pinned: bool = False) -> ConversationRecord:
    return ConversationRecord(identity, title, folder=folder, is_pinned=pinned, updated=NOON - days * DAY)


RECORDS = [
    chat(1, "Pinned one", 40, pinned=True),
    chat(2, "Fresh"),
    chat(3, "In the night", 0.49),
    chat(4, "Day before", 0.6),
    chat(5, "Last week", 6),
    chat(6, "Homework", 1, folder="school"),
    chat(7, "Ancient", 400),
    chat(8, "Zoo", 3, folder="Animals"),
]


def words(rows: list[Row]) -> list[str]:
    return [f"[{row.text}]" if isinstance(row, HeaderRow) else row.record.title for row in rows]


def test_pinned_then_folders_then_by_age() -> None:
    assert words(rows_of(RECORDS, NOON)) == [
        "[Pinned]", "Pinned one", "[Animals]", "Zoo", "[school]", "Homework", "[Today]", "Fresh", "In the night",
        "[Yesterday]", "Day before", "[Previous 7 days]", "Last week", "[Earlier]", "Ancient",
    ]  # fmt: skip


def test_a_closed_folder_shows_how_many_chats_it_has_and_none_of_them() -> None:
    rows = rows_of(RECORDS, NOON, {"school", "of another time"})
    assert words(rows)[2:6] == ["[Animals]", "Zoo", "[school]", "[Today]"]
    assert rows[4] == HeaderRow("school", "school", 1, is_closed=True)


def test_nothing_at_all_has_no_headers() -> None:
    assert rows_of([], NOON) == []


def test_a_search_shows_every_conversation_once_under_titles_and_once_under_messages() -> None:
    hits = [SearchHit(RECORDS[1]), SearchHit(RECORDS[1], 9, "fresh air"), SearchHit(RECORDS[1], 8, "more")]
    assert hit_rows(hits) == [
        HeaderRow("In titles"),
        ChatRow(RECORDS[1], is_found=True),
        HeaderRow("In messages"),
        ChatRow(RECORDS[1], "fresh air", 9, is_found=True),
    ]


@pytest.fixture
def panel(qtbot: QtBot) -> ConversationsPanel:
    made = ConversationsPanel(LIGHT, now=lambda: NOON)
    qtbot.addWidget(made)
    made.resize(260, 500)
    with qtbot.waitExposed(made):
        made.show()
    made.show_conversations(RECORDS)
    return made


def index_of(panel: ConversationsPanel, title: str) -> QModelIndex:
    return next(
        index
        for index in (panel.model.index(number) for number in range(panel.model.rowCount()))
        if index.data() == title
    )


def test_a_pinned_conversation_tells_its_folder(panel: ConversationsPanel) -> None:
    def seen() -> QImage:
        return panel.list.viewport().grab(panel.list.visualRect(index_of(panel, "Pinned one"))).toImage()

    without = seen()
    panel.show_conversations([chat(1, "Pinned one", 40, "school", pinned=True), *RECORDS[1:]])
    index = index_of(panel, "Pinned one")
    assert index.data(Qt.ItemDataRole.AccessibleTextRole) == "Pinned one, Folder: school"
    assert "Folder: school" in str(index.data(Qt.ItemDataRole.ToolTipRole))
    assert seen() != without
    assert "Folder" not in str(index_of(panel, "Homework").data(Qt.ItemDataRole.ToolTipRole)), "its header says it"


def test_a_long_name_of_a_folder_is_shortened_and_its_count_stays(panel: ConversationsPanel) -> None:
    def picture(folder: str, count: int) -> QImage:
        panel.show_conversations([chat(number + 1, f"Chat {number}", folder=folder) for number in range(count)])
        header = panel.model.index(0)
        assert str(header.data(Qt.ItemDataRole.ToolTipRole)).split() == folder.split()
        return panel.list.viewport().grab(panel.list.visualRect(header)).toImage()

    long = "Work and furniture and other wooden things " * 2
    assert picture(long, 1) != picture(long, 2)
    assert picture(long, 1) == picture(long + "end", 1)


def test_what_was_found_tells_its_folder(panel: ConversationsPanel) -> None:
    panel.search.setText("air")
    panel.show_found([SearchHit(RECORDS[5]), SearchHit(RECORDS[5], 9, "fresh air"), SearchHit(RECORDS[1])])
    for number in (1, 4):
        index = panel.model.index(number)
        assert index.data(Qt.ItemDataRole.AccessibleTextRole) == "Homework, Folder: school"
        assert "Folder: school" in str(index.data(Qt.ItemDataRole.ToolTipRole))
    assert index_of(panel, "Fresh").data(Qt.ItemDataRole.AccessibleTextRole) == "Fresh"


@pytest.mark.parametrize("changes", [{"folder": "Zoo"}, {"is_pinned": False}, {"title": "Other"}])
def test_a_search_is_done_again_when_what_it_shows_has_changed(
    panel: ConversationsPanel, qtbot: QtBot, changes: dict[str, Any]
) -> None:
    panel.search.setText("air")
    panel.show_found([SearchHit(RECORDS[1])])
    panel._pause.stop()
    panel.show_conversations([replace(each, updated=each.updated + 1) for each in RECORDS])
    assert not panel._pause.isActive(), "an answer grows"
    with qtbot.waitSignal(panel.search_requested):
        panel.show_conversations([replace(RECORDS[0], **changes), *RECORDS[1:]])


def test_a_click_opens_a_conversation_and_a_header_does_nothing(panel: ConversationsPanel, qtbot: QtBot) -> None:
    with qtbot.waitSignal(panel.opened) as opened:
        place = panel.list.visualRect(index_of(panel, "Fresh")).center()
        QTest.mouseClick(panel.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert opened.args == [2]
    with qtbot.assertNotEmitted(panel.opened):
        place = panel.list.visualRect(index_of(panel, "Today")).center()
        QTest.mouseClick(panel.list.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_a_folder_is_closed_by_mouse_and_keys_and_opened_again(panel: ConversationsPanel, qtbot: QtBot) -> None:
    panel.show_current(2)
    told: list[tuple[str, ...]] = []
    panel.folders_closed.connect(told.append)
    before, viewport = panel.model.rowCount(), panel.list.viewport()
    QTest.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=panel.list.visualRect(index_of(panel, "school")).center())
    assert panel.model.rowCount() == before - 1
    assert [each.data() for each in panel.list.selectedIndexes()] == ["Fresh"], "what is shown stays marked"
    assert index_of(panel, "school").data(Qt.ItemDataRole.AccessibleTextRole) == "school, collapsed folder"
    panel.list.setFocus()
    assert panel.list.currentIndex().data() == "school"
    panel.show_conversations([replace(RECORDS[1], updated=NOON + 1), *RECORDS])
    assert panel.list.currentIndex().data() == "school", "while an answer grows"
    panel.show_conversations(RECORDS)
    for key, closed in (
        (Qt.Key.Key_Left, True), (Qt.Key.Key_Right, False), (Qt.Key.Key_Right, False), (Qt.Key.Key_Return, True),
        (Qt.Key.Key_Space, False),
    ):  # fmt: skip
        QTest.keyClick(panel.list, key)
        assert (panel.model.rowCount() == before - 1) is closed
    assert told == [("school",), (), ("school",), ()]


def test_a_title_in_a_closed_folder_is_written_in_the_list(panel: ConversationsPanel) -> None:
    panel.show_closed({"school"})
    panel.begin_rename(6)
    assert panel.list.currentIndex().data() == "Homework"
    assert len(panel.list.findChildren(QLineEdit)) == 1
    panel.begin_rename(6)
    assert len(panel.list.findChildren(QLineEdit)) == 1


def test_a_folder_is_renamed_and_removed(
    panel: ConversationsPanel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel.show_closed({"school"})
    renamed: list[tuple[str, str]] = []
    panel.folder_renamed.connect(lambda *names: renamed.append(names))
    header = HeaderRow("school", "school", 1, is_closed=True)
    names = {action.text(): action for action in panel.menu_of_folder(header).actions()}
    for given, accepted in (("  Home \n work ", True), ("school", True), (" ", True), ("x", False)):
        monkeypatch.setattr(QInputDialog, "getText", lambda *_, given=given, ok=accepted, **__: (given, ok))
        names["Rename folder…"].trigger()
    assert renamed == [("school", "Home work")]
    panel.show_conversations([replace(each, folder=each.folder.replace("school", "Home work")) for each in RECORDS])
    assert index_of(panel, "Home work").row() + 1 == index_of(panel, "Today").row(), "it is closed still"
    names["Remove folder, keep its chats"].trigger()
    assert renamed[1:] == [("school", "")]


def test_delete_and_return_act_on_the_chosen_conversation(panel: ConversationsPanel, qtbot: QtBot) -> None:
    panel.list.setFocus()
    panel.list.setCurrentIndex(index_of(panel, "Zoo"))
    with qtbot.waitSignal(panel.deleted) as deleted:
        QTest.keyClick(panel.list, Qt.Key.Key_Delete)
    assert deleted.args == [8]
    with qtbot.waitSignal(panel.opened) as opened:
        QTest.keyClick(panel.list, Qt.Key.Key_Return)
    assert opened.args == [8]


def test_a_title_is_written_in_the_list(panel: ConversationsPanel, qtbot: QtBot) -> None:
    panel.list.edit(index_of(panel, "Zoo"))
    editor = panel.list.viewport().findChild(QLineEdit)
    assert isinstance(editor, QLineEdit)
    editor.setText("Garden")
    with qtbot.waitSignal(panel.renamed) as renamed:
        QTest.keyClick(editor, Qt.Key.Key_Return)
    assert renamed.args == [8, "Garden"]


def test_a_right_click_leaves_the_mark_at_what_is_shown(panel: ConversationsPanel) -> None:
    panel.show_current(2)
    place = panel.list.visualRect(index_of(panel, "Last week")).center()
    QTest.mouseClick(panel.list.viewport(), Qt.MouseButton.RightButton, pos=place)
    assert panel.list.currentIndex().data() == "Fresh"
    QTest.mouseClick(panel.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert panel.list.currentIndex().data() == "Last week"


def test_the_menu_does_what_it_says(panel: ConversationsPanel, qtbot: QtBot) -> None:
    menu = panel.menu_of(ChatRow(RECORDS[5]))
    names = {action.text().partition("\t")[0]: action for action in menu.actions()}
    with qtbot.waitSignals([panel.pinned, panel.duplicated, panel.exported, panel.deleted]):
        for name in ("Pin", "Duplicate", "Export…", "Delete"):
            names[name].trigger()
    folders = names["Move to folder"].menu()
    assert [action.text() for action in folders.actions() if action.text()] == [  # type: ignore[attr-defined]
        "Animals",
        "school",
        "New folder…",
        "Out of folder",
    ]
    with qtbot.waitSignal(panel.moved) as moved:
        folders.actions()[0].trigger()  # type: ignore[attr-defined]
    assert moved.args == [6, "Animals"]


@pytest.mark.usefixtures("german")
def test_keys_of_the_menu_are_those_of_the_person_s_keyboard(panel: ConversationsPanel) -> None:
    keys = [action.text().partition("\t")[2] for action in panel.menu_of(ChatRow(RECORDS[5])).actions()]
    assert [each for each in keys if each] == ["F2", "Entf"]


def test_a_search_is_asked_for_when_the_typing_pauses_and_escape_leaves_it(
    panel: ConversationsPanel, qtbot: QtBot
) -> None:
    with qtbot.waitSignal(panel.search_requested) as asked:
        QTest.keyClicks(panel.search, "air")
    assert asked.args == ["air"]
    panel.show_found([SearchHit(RECORDS[1], 9, f"fresh {HIT_BEGIN}air{HIT_END}")])
    panel.show_conversations(RECORDS)  # news of the list do not end the search
    assert panel.model.rowCount() == 2
    panel.grab()  # paints the excerpt
    panel.show_found([])
    assert panel.empty.text() == "Nothing was found."
    assert panel.list.isHidden()
    QTest.keyClick(panel.search, Qt.Key.Key_Escape)
    assert panel.model.rowCount() == len(rows_of(RECORDS, NOON))


def test_an_empty_list_says_what_it_is_for(qtbot: QtBot) -> None:
    panel = ConversationsPanel(DARK)
    qtbot.addWidget(panel)
    panel.show_conversations([])
    assert "listed here" in panel.empty.text()
    assert panel.list.isHidden()


def test_ten_thousand_conversations_are_shown_as_rows_on_demand(panel: ConversationsPanel) -> None:
    panel.show_conversations([chat(number, f"Chat {number}", number / 50) for number in range(10_000)])
    QApplication.processEvents()
    assert panel.model.rowCount() > 10_000
    panel.show_current(9_999)
    assert panel.list.currentIndex().data() == "Chat 9999"


def test_a_title_is_written_to_its_end_while_an_answer_grows(panel: ConversationsPanel, qtbot: QtBot) -> None:
    panel.list.setFocus()
    panel.list.setCurrentIndex(panel.model.index_of(2))
    panel.begin_rename(2)
    editor = panel.list.findChild(QLineEdit)
    assert isinstance(editor, QLineEdit)
    QTest.keyClicks(editor, "Half")
    panel.show_conversations([*RECORDS, chat(9, "New")])  # as with every save
    QTest.keyClicks(editor, "way")
    with qtbot.waitSignal(panel.renamed) as renamed:
        QTest.keyClick(editor, Qt.Key.Key_Return)
    assert renamed.args == [2, "Halfway"]
    qtbot.waitUntil(lambda: panel.model.index_of(9).isValid())


def test_who_goes_through_the_list_with_keys_stays_there_while_an_answer_grows(panel: ConversationsPanel) -> None:
    panel.show_current(2)
    panel.list.setFocus()
    QTest.keyClick(panel.list, Qt.Key.Key_Down)
    panel.show_conversations([chat(9, "New"), *RECORDS])
    row = panel.model.row(panel.list.currentIndex())
    assert isinstance(row, ChatRow)
    assert row.record.id == 3


def test_the_search_leads_into_the_list_and_return_opens_the_first(panel: ConversationsPanel, qtbot: QtBot) -> None:
    panel.search.setFocus()
    QTest.keyClicks(panel.search, "air")
    with qtbot.waitSignal(panel.search_requested) as asked, qtbot.assertNotEmitted(panel.opened):
        QTest.keyClick(panel.search, Qt.Key.Key_Return)  # nothing is found yet
    assert asked.args == ["air"]
    with qtbot.waitSignal(panel.opened) as opened:
        panel.show_found([SearchHit(RECORDS[1], 9, "fresh air"), SearchHit(RECORDS[4], 7, "air")])
    assert opened.args == [2]
    QTest.keyClick(panel.search, Qt.Key.Key_Down)
    assert panel.list.hasFocus()
    assert panel.chosen == 2
    with qtbot.waitSignal(panel.search_requested):
        panel.show_conversations(RECORDS[2:])  # what was found is not there any more


@pytest.mark.parametrize(
    ("what", "onto", "told"),
    [
        ("Fresh", "Pinned", [("pinned", 2, True)]),
        ("Pinned one", "school", [("pinned", 1, False), ("moved", 1, "school")]),
        ("Fresh", "Homework", [("moved", 2, "school")]),
        ("Homework", "Fresh", [("moved", 6, "")]),
        ("Homework", "", [("moved", 6, "")]),
        ("Fresh", "Ancient", []),
    ],
)
def test_what_is_dropped_goes_into_that_group(
    panel: ConversationsPanel, what: str, onto: str, told: list[tuple[object, ...]]
) -> None:
    heard: list[tuple[object, ...]] = []
    panel.moved.connect(lambda *what: heard.append(("moved", *what)))
    panel.pinned.connect(lambda *what: heard.append(("pinned", *what)))
    data = panel.model.mimeData([index_of(panel, what)])
    parent = index_of(panel, onto) if onto else QModelIndex()
    assert panel.model.canDropMimeData(data, Qt.DropAction.CopyAction, -1, -1, parent)
    panel.model.dropMimeData(data, Qt.DropAction.CopyAction, -1, -1, parent)
    assert heard == told


def test_nothing_is_dropped_among_what_was_found(panel: ConversationsPanel, qtbot: QtBot) -> None:
    data = panel.model.mimeData([index_of(panel, "Homework")])
    panel.search.setText("home")
    panel.show_found([SearchHit(RECORDS[5])])
    with qtbot.assertNotEmitted(panel.moved):
        for row in range(panel.model.rowCount()):
            panel.model.dropMimeData(data, Qt.DropAction.MoveAction, -1, -1, panel.model.index(row))


def test_a_list_whose_title_is_being_written_goes_with_its_window(qtbot: QtBot) -> None:
    """The editor closes as the list is destroyed, and what is to follow finds none of it."""
    window = QMainWindow()
    dock, made = QDockWidget(window), ConversationsPanel(LIGHT, window)
    dock.setWidget(made)
    window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, dock)
    made.show_conversations(RECORDS)
    window.show()
    QApplication.processEvents()
    made.begin_rename(8)
    assert made.list.viewport().findChild(QLineEdit) is not None
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QApplication.processEvents()
