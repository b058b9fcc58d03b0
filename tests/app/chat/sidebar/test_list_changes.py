"""What the list of conversations tells Qt when it changes: only what changed, and no height is asked for each row."""

import datetime
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import QAbstractItemModel, QPersistentModelIndex, QSize
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot

from app.chat.history.records import HIT_BEGIN, HIT_END, ConversationRecord, SearchHit
from app.chat.sidebar.delegate import ConversationDelegate
from app.chat.sidebar.model import ConversationModel
from app.chat.sidebar.panel import ConversationsPanel
from app.chat.sidebar.rows import ChatRow, hit_rows, rows_of
from app.ui.theme import LIGHT

NOON = datetime.datetime(2026, 9, 21, 12).astimezone().timestamp()  # wherever this is run
HOUR = 3600.0


def chats(count: int) -> list[ConversationRecord]:
    """So many, the newest first, two in every day; some are pinned, some in folders."""
    folders = ("", "", "school", "", "Animals")
    made = [
        ConversationRecord(
            number + 1, f"Chat {number}", folder=folders[number % 5], is_pinned=number % 40 == 0,
            updated=NOON - number * 12 * HOUR, created=NOON,
        )
        for number in range(count)
    ]  # fmt: skip
    return listed(made)


def listed(records: list[ConversationRecord]) -> list[ConversationRecord]:
    return sorted(records, key=lambda each: (not each.is_pinned, -each.updated, each.id))


class Heard:
    """The signals of a model, as words."""

    def __init__(self, model: QAbstractItemModel) -> None:
        self.story: list[str] = []
        model.modelReset.connect(lambda: self.story.append("reset"))
        model.layoutChanged.connect(lambda: self.story.append("order"))
        model.rowsInserted.connect(lambda _, first, last: self.story.append(f"in {first}-{last}"))
        model.rowsRemoved.connect(lambda _, first, last: self.story.append(f"out {first}-{last}"))
        model.dataChanged.connect(lambda first, last: self.story.append(f"changed {first.row()}-{last.row()}"))


@pytest.fixture
def model(qapp: object) -> Iterator[ConversationModel]:
    made = ConversationModel()
    made.show_rows(rows_of(chats(100), NOON))
    yield made
    made.deleteLater()


def test_a_rename_changes_one_row(model: ConversationModel) -> None:
    heard, records = Heard(model), chats(100)
    records[7] = replace(records[7], title="Other")
    model.show_rows(rows_of(records, NOON))
    row = model.index_of(records[7].id).row()
    assert heard.story == [f"changed {row}-{row}"]
    assert model.index(row).data() == "Other"


def test_the_same_again_changes_nothing(model: ConversationModel) -> None:
    heard = Heard(model)
    model.show_rows(rows_of(chats(100), NOON))
    assert heard.story == []


def test_what_nobody_sees_is_taken_over_without_a_word(model: ConversationModel) -> None:
    """Qt lays out every row again for each that has changed; a growing answer is saved twice a second."""
    heard, records = Heard(model), chats(100)
    number = next(number for number, each in enumerate(records) if not each.is_pinned)
    records[number] = replace(records[number], updated=records[number].updated + 1)
    model.show_rows(rows_of(records, NOON))
    assert heard.story == []
    shown = model.row(model.index_of(records[number].id))
    assert isinstance(shown, ChatRow)
    assert shown.record is records[number]


def test_a_new_conversation_comes_in_and_a_deleted_one_goes(model: ConversationModel) -> None:
    heard, records = Heard(model), chats(100)
    model.show_rows(rows_of(listed([ConversationRecord(999, "New", updated=NOON + 1), *records]), NOON))
    row = model.index_of(999).row()
    assert heard.story == [f"in {row}-{row}"]
    heard.story.clear()
    model.show_rows(rows_of(records, NOON))
    assert heard.story == [f"out {row}-{row}"]


def test_a_conversation_that_goes_to_the_top_is_moved(model: ConversationModel) -> None:
    heard, records = Heard(model), chats(100)
    plain = [each for each in records if not each.folder and not each.is_pinned]
    follower, neighbour = (QPersistentModelIndex(model.index_of(each.id)) for each in (plain[9], plain[8]))
    other = [replace(each, updated=NOON) if each is plain[9] else each for each in records]
    model.show_rows(rows_of(listed(other), NOON))
    assert heard.story[0] == "order"
    assert "reset" not in heard.story
    assert model.index_of(plain[9].id).row() < model.index_of(plain[0].id).row()
    assert follower.data() == plain[9].title
    assert neighbour.data() == plain[8].title


def test_what_has_nothing_in_common_replaces_everything(model: ConversationModel) -> None:
    heard = Heard(model)
    hits = [SearchHit(each, 5, "an oak") for each in chats(100)[:9]]
    model.show_rows(hit_rows(hits))
    assert heard.story == ["reset"]


def test_any_change_leads_to_the_rows_that_were_given(qapp: object) -> None:
    """Qt's own tester checks every step; a persistent index stays on its conversation."""
    model, rng = ConversationModel(), random.Random(8)
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Warning, model)
    everything = chats(40)
    for _ in range(25):
        some = [each for each in everything if rng.random() < rng.choice((0.05, 0.9, 1.0))]
        changed = [_changed(each, rng) if rng.random() < 0.05 else each for each in some]
        followed = {identity: QPersistentModelIndex(model.index_of(identity)) for identity in range(1, 41)}
        heard = Heard(model)
        rows = rows_of(listed(changed), NOON)
        model.show_rows(rows)
        assert [model.row(model.index(number)) for number in range(model.rowCount())] == rows
        if "reset" not in heard.story:
            for identity, index in followed.items():
                row = model.row(index)
                assert not index.isValid() or (isinstance(row, ChatRow) and row.record.id == identity)


def _changed(record: ConversationRecord, rng: random.Random) -> ConversationRecord:
    changes: Callable[[], ConversationRecord] = rng.choice(
        (
            lambda: replace(record, title="Renamed"),
            lambda: replace(record, is_pinned=not record.is_pinned),
            lambda: replace(record, folder="school"),
            lambda: replace(record, updated=NOON),
        )
    )
    return changes()


# ---- the list -------------------------------------------------------------------------------------------------------


@pytest.fixture
def panel(qtbot: QtBot) -> ConversationsPanel:
    made = ConversationsPanel(LIGHT, now=lambda: NOON)
    qtbot.addWidget(made)
    made.resize(260, 400)
    with qtbot.waitExposed(made):
        made.show()
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[QSize]:
    """Every height that Qt asked for."""
    answers: list[QSize] = []
    original = ConversationDelegate.sizeHint

    def size(self: ConversationDelegate, *about: object) -> QSize:
        answers.append(original(self, *about))  # type: ignore[arg-type]
        return answers[-1]

    monkeypatch.setattr(ConversationDelegate, "sizeHint", size)
    return answers


def test_the_height_of_a_row_is_asked_for_once_not_for_every_conversation(
    panel: ConversationsPanel, asked: list[QSize]
) -> None:
    panel.show_conversations(chats(800))
    panel.show_current(800)
    panel.list.executeDelayedItemsLayout()
    assert panel.list.visualRect(panel.model.index_of(800)).isValid()
    assert 0 < len(asked) < 50


def test_rows_with_an_excerpt_are_higher_and_leave_the_others_as_they_were(panel: ConversationsPanel) -> None:
    records = chats(20)
    panel.show_conversations(records)
    plain = panel.list.visualRect(panel.model.first).height()
    panel.search.setText("oak")
    panel.show_found([SearchHit(records[3]), SearchHit(records[4], 7, f"an {HIT_BEGIN}oak{HIT_END}")])
    heights = [panel.list.visualRect(panel.model.index(number)).height() for number in range(4)]
    assert heights[:3] == [plain, plain, plain]
    assert heights[3] > plain
    panel.search.clear()
    assert panel.list.visualRect(panel.model.index_of(records[4].id)).height() == plain


def test_a_change_during_a_search_makes_no_title_anew(
    panel: ConversationsPanel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def note(text: str) -> str:
        made.append(text)
        return text

    records = chats(50)
    panel.show_conversations(records)
    panel.search.setText("oak")
    panel.show_found([])
    monkeypatch.setattr("app.chat.history.records.unsteered", note)
    with qtbot.waitSignal(panel.search_requested):
        panel.show_conversations([replace(records[0], title="An oak"), *records[1:]])
    assert made == []


def test_the_chosen_row_and_the_place_stay_while_an_answer_grows(panel: ConversationsPanel) -> None:
    records = chats(200)
    panel.show_conversations(records)
    panel.show_current(records[120].id)
    bar = panel.list.verticalScrollBar()
    place, moved = bar.value(), list[int]()
    assert place > 0
    bar.valueChanged.connect(moved.append)
    selection = panel.list.selectionModel()
    selection.currentChanged.connect(lambda *_: moved.append(0))
    records[120] = replace(records[120], auto_title="Grown", settings={"seed": 1})
    panel.show_conversations(records)
    panel.list.executeDelayedItemsLayout()
    assert (moved, bar.value()) == ([], place)
    assert selection.isSelected(panel.model.index_of(records[120].id))
