"""Finding models: nothing asked before a person asks, results as one list, estimates, filters, offline."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.library.pairing.room import Room
from app.library.picker.entry import Size
from app.library.picker.entry_list import ENTRY
from app.ui.notices import Notice
from tests.app.hub.repositories import tiny
from tests.app.library.local.folders import cached
from tests.app.library.picker.conftest import SUGGESTION, Desk, put_up
from tests.hub import Hub, status


def names(desk: Desk) -> list[str]:
    """What the list shows."""
    entries = desk.dialog.discover.entries
    return [entries.index(row).data(ENTRY).name for row in range(entries.rowCount())]


def shown_notices(desk: Desk) -> tuple[Notice, ...]:
    return desk.dialog.discover.notices.notices


def wait_for_more(desk: Desk, seen: int) -> None:
    desk.wait(lambda: len(names(desk)) > seen)


def test_an_empty_dialog_suggests_and_asks_nobody(desk: Desk, hub: Hub, pair: None) -> None:
    dialog = desk.open()
    assert names(desk) == ["org/large"]
    assert dialog.focusWidget() is dialog.discover.field
    desk.qtbot.wait(200)  # nothing is to come: there is nothing to wait for
    assert hub.requests == []
    assert desk.link.priced == []
    desk.choose("org/large")
    said = desk.dialog.details.estimate
    desk.wait(lambda: said.text() == "Runs on the GPU, about 20 tokens/s")  # in the 4 bits it is for
    assert desk.verdict("org/large") == said.text(), "of the pair that would be loaded"


def test_letters_become_one_question_and_results_come_in_pages(desk: Desk, hub: Hub) -> None:
    for number in range(120):
        hub.add(f"org/model-{number:03}", {"config.json": b"{}"}, downloads=1000 - number)
    desk.open()
    QTest.keyClicks(desk.dialog.discover.field, "model")
    desk.wait(lambda: bool(names(desk)) and names(desk)[0] == "org/model-000")
    searches = [each for each in hub.requests if each.path.endswith("/api/models")]
    assert len(searches) == 1
    view = desk.dialog.discover.view
    while len(names(desk)) < 120:
        seen = len(names(desk))
        view.scrollToBottom()
        wait_for_more(desk, seen)
    assert names(desk) == [f"org/model-{number:03}" for number in range(120)]


def test_every_line_tells_what_is_known_and_what_is_estimated(desk: Desk, hub: Hub, pair: None) -> None:
    put_up(hub, "org/huge-one", 900_000_000_000, 3, gated="auto", access={})
    desk.open()
    desk.search("org")
    entries = desk.dialog.discover.entries
    desk.wait(lambda: "GPU" in desk.verdict("org/large"))
    line = str(entries.index(entries.row_of("org/large")).data(Qt.ItemDataRole.AccessibleTextRole))
    assert line == (
        "org/large, 8.0 B parameters  ·  safetensors 16-bit  ·  16.0 GB  ·  mit  ·  llama, "
        "Runs on the GPU, about 10 tokens/s"
    )
    desk.wait(lambda: "log in" in desk.verdict("org/huge-one"))
    tip = str(entries.index(entries.row_of("org/huge-one")).data(Qt.ItemDataRole.ToolTipRole))
    assert "Gated" in tip
    assert "Parameters: 900 B" in tip


def test_filters_hide_by_size_and_by_what_runs_here(desk: Desk, hub: Hub, pair: None) -> None:
    put_up(hub, "org/huge-one", 900_000_000_000, 3)
    desk.open()
    desk.search("org")
    desk.wait(lambda: desk.verdict("org/huge-one").startswith("Does not fit, because 1 TB"))
    discover = desk.dialog.discover
    assert len(names(desk)) == 4
    discover.runs_here.click()
    assert names(desk) == ["org/large", "org/small", "org/other"]
    discover.size_choice.setCurrentIndex(discover.size_choice.findData(Size.SMALL))
    assert set(names(desk)) == {"org/small", "org/other"}
    discover.size_choice.setCurrentIndex(discover.size_choice.findData(Size.LARGE))
    assert discover.empty.isVisible()
    assert "hidden by the filters" in discover.empty.text()


def test_suggestions_that_fit_come_first_and_the_others_are_hidden_by_runs_here(desk: Desk) -> None:
    """Also offline: sizes are known without asking anybody."""
    small = replace(SUGGESTION, target=replace(SUGGESTION.target, repo="org/less", bytes=4_000_000_000))
    desk.room.suggested = (SUGGESTION, small)
    discover = desk.open().discover
    discover.show_room(Room(memory_bytes=8_000_000_000, disk_bytes=10**12))
    assert names(desk) == ["org/less", "org/large"]

    def line(name: str) -> str:
        entries = discover.entries
        return str(entries.index(entries.row_of(name)).data(Qt.ItemDataRole.AccessibleTextRole))

    assert line("org/large").endswith("Larger than the memory of this computer: streams from SSD, slowly")
    assert "memory" not in line("org/less")
    discover.runs_here.click()
    assert names(desk) == ["org/less"]
    discover.show_room(Room(memory_bytes=8_000_000_000, disk_bytes=10**9))
    assert names(desk) == []
    assert "hidden by the filters" in discover.empty.text()
    discover.runs_here.click()
    assert line("org/less").endswith("Larger than what is free on the disk: 1.0 GB")
    discover.show_room(Room())
    assert names(desk) == ["org/large", "org/less"]


def test_the_dialog_looks_what_there_is_room_for(desk: Desk, qtbot: QtBot) -> None:
    desk.dialog  # noqa: B018  # is made here
    with qtbot.waitSignal(desk.library.room_known) as known:
        desk.open()
    assert known.args is not None
    assert known.args[0].disk_bytes


def test_a_search_without_a_result_says_so(desk: Desk, hub: Hub, pair: None) -> None:
    desk.open()
    desk.search("nothing-like-that")
    assert desk.dialog.discover.empty.isVisible()
    assert "nothing-like-that" in desk.dialog.discover.empty.text()
    assert not desk.dialog.discover.progress.isVisible()


def test_searching_is_shown_and_ends(desk: Desk, hub: Hub, pair: None) -> None:
    desk.open()
    QTest.keyClicks(desk.dialog.discover.field, "org")
    QTest.keyClick(desk.dialog.discover.field, Qt.Key.Key_Return)
    assert desk.dialog.discover.progress.isVisible()
    desk.wait(lambda: not desk.dialog.discover.progress.isVisible())
    assert "org/small" in names(desk)


def test_a_failed_search_is_told_and_tried_again(desk: Desk, hub: Hub, pair: None) -> None:
    desk.open()
    hub.fail("models", status(503))
    desk.search("org")
    assert "busy" in shown_notices(desk)[0].message
    desk.dialog.discover.notices.act(shown_notices(desk)[0].key)
    desk.wait(lambda: "org/large" in names(desk))
    assert not shown_notices(desk)


def test_a_pasted_address_finds_its_model(desk: Desk, hub: Hub, pair: None) -> None:
    desk.open()
    desk.search(f"{hub.endpoint}/org/large/tree/main")
    desk.wait(lambda: names(desk) == ["org/large"])


def test_offline_a_name_that_is_not_here_is_said_not_to_be(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    desk.open()
    desk.search("nothing-like-that")
    desk.wait(lambda: bool(shown_notices(desk)))
    assert desk.dialog.discover.empty.isVisible()
    assert "No model on this computer" in desk.dialog.discover.empty.text()


def test_offline_shows_what_is_here(
    desk: Desk, hub: Hub, pair: None, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(cache, "org/kept-large", tiny())
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    desk.open()
    desk.search("large")
    assert "offline" in shown_notices(desk)[0].message
    assert names(desk) == ["org/kept-large"]
    desk.choose("org/kept-large")
    assert desk.button == "Load"
    assert hub.requests == []
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    desk.dialog.discover.notices.act("search")
    desk.wait(lambda: names(desk) == ["org/large"])


def test_clearing_the_field_brings_the_suggestions_back(desk: Desk, hub: Hub, pair: None) -> None:
    desk.open()
    desk.search("small")
    assert names(desk) == ["org/small"]
    QTest.keyClick(desk.dialog.discover.field, Qt.Key.Key_Escape)
    desk.wait(lambda: names(desk) == ["org/large"])
    assert desk.dialog.isVisible()
    QTest.keyClick(desk.dialog.discover.field, Qt.Key.Key_Escape)
    assert not desk.dialog.isVisible()


def test_letters_go_to_the_search_and_arrows_into_the_list(desk: Desk, hub: Hub, pair: None) -> None:
    dialog = desk.open()
    desk.search("org")
    QTest.keyClick(dialog.discover.field, Qt.Key.Key_Down)
    assert dialog.focusWidget() is dialog.discover.view
    assert dialog.discover.view.current is not None
    QTest.keyClick(dialog.discover.view, Qt.Key.Key_S)
    assert dialog.focusWidget() is dialog.discover.field
    assert dialog.discover.field.text() == "orgs"


def test_what_is_here_already_has_a_badge_and_is_loaded(desk: Desk, hub: Hub, pair: None, cache: Path) -> None:
    cached(cache, "org/large", tiny())
    desk.open()
    desk.search("large")
    line = str(desk.dialog.discover.entries.index(0).data(Qt.ItemDataRole.AccessibleTextRole))
    assert "On this computer" in line
    desk.choose("org/large")
    assert desk.button in ("Load", "Download the draft (1.0 GB) and load")


def test_models_that_read_pictures_are_told_and_can_be_had_alone(desk: Desk, hub: Hub, pair: None) -> None:
    details = {"config": {"model_type": "qwen3_vl"}, "pipeline_tag": "image-text-to-text"}
    hub.add("org/sees", tiny(), details=details)
    desk.open()
    desk.search("org")
    discover = desk.dialog.discover
    assert len(names(desk)) == 4
    discover.sees.click()
    assert names(desk) == ["org/sees"]
    desk.choose("org/sees")
    assert desk.dialog.details.sight.text() == "Reads pictures"
    assert "Reads pictures" in discover.entries.index(0).data(Qt.ItemDataRole.AccessibleTextRole)
