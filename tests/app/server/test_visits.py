"""The log of the local server: what is kept of who asks, and how it reads as a table."""

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.server.log_view import COLUMNS, LogModel
from app.server.visits import MOST_ENTRIES, Traffic, VisitLog
from engine.protocol.serving import Visit, VisitState


def visit(number: int, state: VisitState = "answering", client: str = "10.0.0.1", **more: object) -> Visit:
    return Visit(number, client, "curl/8", "/v1/models", state, **more)  # type: ignore[arg-type]


def test_a_request_is_one_entry_however_often_it_is_told() -> None:
    log = VisitLog()
    log.take([visit(1, "waiting", ahead=1), visit(2, "waiting", "10.0.0.2"), visit(3, "answering")], 100.0)
    assert log.traffic == Traffic(clients=2, waiting=2, answering=1)
    log.take([visit(1, "done"), visit(3, "failed")], 200.0)
    assert log.traffic == Traffic(clients=1, waiting=1)
    assert [(each.visit.number, each.came) for each in log.entries] == [(1, 100.0), (2, 100.0), (3, 100.0)]
    log.clear()
    assert [each.visit.number for each in log.entries] == [2], "what is under way stays"


def test_a_new_engine_counts_anew_and_what_the_old_one_left_open_is_over() -> None:
    log = VisitLog()
    log.take([visit(1)], 1.0)
    log.begin_anew()
    log.take([visit(1, "done")], 2.0)
    assert [each.visit.state for each in log.entries] == ["gone", "done"]
    assert log.traffic == Traffic()


def test_only_the_newest_are_kept() -> None:
    log = VisitLog()
    log.take([visit(number, "done") for number in range(MOST_ENTRIES + 20)], 1.0)
    assert [log.entries[0].visit.number, len(log.entries)] == [20, MOST_ENTRIES]


def test_what_is_under_way_stays_however_many_come_after_it() -> None:
    log = VisitLog()
    log.take([visit(1, "answering"), *(visit(number, "done") for number in range(2, MOST_ENTRIES + 9))], 1.0)
    assert log.traffic == Traffic(clients=1, answering=1)
    log.take([visit(1, "done")], 9.0)
    assert (log.entries[0].visit.number, log.entries[0].came) == (1, 1.0)


def rows(model: LogModel, column: int) -> list[str]:
    return [str(model.index(row, column).data()) for row in range(model.rowCount())]


def test_the_table_changes_as_little_as_it_can(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    log, model, told = VisitLog(), LogModel(parent), list[str]()
    model.modelReset.connect(lambda: told.append("all"))
    model.rowsInserted.connect(lambda _parent, first, last: told.append(f"in {first}-{last}"))
    model.rowsRemoved.connect(lambda _parent, first, last: told.append(f"out {first}-{last}"))
    model.dataChanged.connect(lambda above, below: told.append(f"changed {above.row()}-{below.row()}"))
    log.take([visit(1), visit(2)], 0.0)
    model.show_entries(log.entries)
    log.take([visit(2, "done"), visit(3, "waiting", ahead=2)], 0.0)
    model.show_entries(log.entries)
    assert told == ["all", "in 0-0", "changed 1-1"]
    assert rows(model, 4) == ["Waiting, 2 before it", "Done", "Answering"]
    model.show_entries(log.entries[1:])
    assert told[3:] == ["out 2-2"]
    model.show_entries(())
    assert told[4:] == ["out 0-1"]
    assert model.columnCount(QModelIndex()) == len(COLUMNS)


def test_what_a_client_says_can_neither_steer_nor_break_the_table(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    log, model = VisitLog(), LogModel(parent)
    evil = Visit(
        1, "::1", "\u202e<b>x</b>\r\n\tfaked\x00", "/" + "a" * 10_000, "failed", words="No\nway.", status=404,
        ahead=10**30, prompt_tokens=-3, new_tokens=10**30, seconds=float("nan"),
    )  # fmt: skip
    log.take([evil, Visit(2, "", "", "", "strange")], 1e6)  # type: ignore[arg-type]
    model.show_entries(log.entries)
    assert rows(model, 2) == ["", "<b>x</b> faked\x00"]
    assert rows(model, 4) == ["Done", "Failed 404: No way."]
    assert rows(model, 6)[1] == rows(model, 7)[1] == ""
    text = model.as_text([])
    assert text.count("\n") == 3
    assert all(line.count("\t") == len(COLUMNS) - 1 for line in text.splitlines())
    assert len(model.index(1, 3).data(Qt.ItemDataRole.ToolTipRole)) < 4000
