"""The assistant, by keyboard and mouse: it proposes, installs, pauses, goes on, and says what comes next."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.installation.assistant.dialog import EngineAssistant
from app.installation.link import RuntimeLink
from app.installation.runtime.manager import RuntimeManager
from app.installation.runtime.place import Wanted
from app.installation.runtime.progress import Stage
from tests.app.installation.packages import BLOB, PackageIndex
from tests.hub import stall


def give_folder(assistant: EngineAssistant, folder: Path) -> None:
    """Choose a folder of wheels."""
    assistant.proposal.local.click()
    assistant.proposal.folder.setText(str(folder))


def test_it_proposes_what_suits_the_computer_with_size_and_time(assistant: EngineAssistant) -> None:
    first, second = assistant.proposal.choices
    assert first.isChecked()
    assert "recommended" in first.text()
    assert "to download" in first.accessibleDescription()
    assert "No NVIDIA card" in second.accessibleDescription()
    assert "processor" in assistant.proposal.found.text()
    assert assistant.install.isEnabled()
    assert assistant.proposal.wanted == Wanted("cpu")


def test_another_build_can_be_chosen_all_the_same(assistant: EngineAssistant) -> None:
    assistant.proposal.choices[1].click()
    assert assistant.proposal.wanted == Wanted("cuda")
    assistant.choose()
    assert assistant.proposal.wanted == Wanted("cuda")


def test_a_folder_of_wheels_must_be_named_first(assistant: EngineAssistant, wheels: Path) -> None:
    assert not assistant.proposal.folder.isEnabled()
    assistant.proposal.local.click()
    assert assistant.focusWidget() is assistant.proposal.folder, "a person at the keyboard types on"
    assert not assistant.install.isEnabled()
    assistant.proposal.folder.setText(str(wheels))
    assert assistant.install.isEnabled()
    assert "nothing is downloaded" in assistant.proposal.choices[0].accessibleDescription()


def test_a_folder_of_somebody_whom_this_computer_does_not_know_is_said_not_to_be_there(
    qtbot: QtBot, runtime: RuntimeLink
) -> None:
    with qtbot.waitSignal(runtime.ended):
        runtime.install(Wanted("cpu", "~nobody-of-this-name/wheels"))
    assert "~nobody-of-this-name" in runtime.progress.message


def test_return_installs_and_the_last_page_offers_what_comes_next(
    qtbot: QtBot, assistant: EngineAssistant, runtime: RuntimeLink, wheels: Path
) -> None:
    give_folder(assistant, wheels)
    with qtbot.waitSignal(runtime.ended):
        QTest.keyClick(assistant.proposal.folder, Qt.Key.Key_Return)
        assert assistant.pages.currentWidget() is assistant.progress
    assert runtime.progress.stage is Stage.DONE, runtime.progress.message
    assert assistant.pages.currentWidget() is assistant.ready
    assert runtime.installed is not None
    with qtbot.waitSignal(assistant.try_requested):
        QTest.keyClick(assistant, Qt.Key.Key_Return)
    assert not assistant.isVisible()


def test_an_engine_for_a_card_says_when_it_finds_none(
    qtbot: QtBot, assistant: EngineAssistant, runtime: RuntimeLink, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assistant.proposal.choices[1].click()
    give_folder(assistant, wheels)
    with qtbot.waitSignal(runtime.ended):
        assistant.install.click()
    assert "does not find the graphics card" in assistant.ready.title.text()
    monkeypatch.setenv("COPPICE_TINY_CARD", "1")
    with qtbot.waitSignal(runtime.ended):
        runtime.repair()
    assert assistant.ready.title.text() == "The engine is ready."


def test_a_model_can_be_chosen_instead(qtbot: QtBot, assistant: EngineAssistant) -> None:
    with qtbot.waitSignal(assistant.models_requested):
        assistant.ready.models.click()
    assert not assistant.isVisible()


def test_a_failure_is_told_and_can_be_tried_again(
    qtbot: QtBot, assistant: EngineAssistant, runtime: RuntimeLink, wheels: Path
) -> None:
    missing = (wheels / BLOB).read_bytes()
    (wheels / BLOB).unlink()
    give_folder(assistant, wheels)
    with qtbot.waitSignal(runtime.ended):
        assistant.install.click()
    assert BLOB in assistant.progress.error.text()
    assert assistant.resume.isVisible()
    assert "again" in assistant.resume.text()
    (wheels / BLOB).write_bytes(missing)
    with qtbot.waitSignal(runtime.ended):
        assistant.resume.click()
    assert assistant.pages.currentWidget() is assistant.ready


def test_a_pause_is_resumed_and_closing_stops_nothing(
    qtbot: QtBot, index: PackageIndex, assistant: EngineAssistant, runtime: RuntimeLink
) -> None:
    index.fail(BLOB, stall(after=150_000), times=99)
    assistant.install.click()
    qtbot.waitUntil(lambda: runtime.progress.fetched.file_bytes == 150_000)
    assert "of" in assistant.progress.detail.text()
    assistant.close()
    assert runtime.is_busy
    assistant.show()
    with qtbot.waitSignal(runtime.ended):
        assistant.pause.click()
        assert not assistant.pause.isEnabled()
        assert "Stopping" in assistant.progress.stage.text()
    assert runtime.progress.stage is Stage.PAUSED
    assert assistant.progress.bar.value() > 0
    assert " of " in assistant.progress.detail.text(), "what has arrived"
    index.heal()
    index.release()
    with qtbot.waitSignal(runtime.ended):
        assistant.resume.click()
    assert assistant.pages.currentWidget() is assistant.ready


def test_cancelling_goes_back_to_the_choice(
    qtbot: QtBot, index: PackageIndex, assistant: EngineAssistant, runtime: RuntimeLink, manager: RuntimeManager
) -> None:
    index.fail(BLOB, stall(after=1000), times=99)
    assistant.install.click()
    qtbot.waitUntil(lambda: runtime.progress.fetched.file_bytes == 1000)
    with qtbot.waitSignal(runtime.ended):
        assistant.cancel.click()
    assert assistant.pages.currentWidget() is assistant.proposal
    assert manager.to_resume() is None


def test_a_paused_one_can_be_cancelled_too(
    qtbot: QtBot, assistant: EngineAssistant, runtime: RuntimeLink, manager: RuntimeManager
) -> None:
    manager.place.want(Wanted("cpu", paused=True))
    assert runtime.restore()
    assistant.progress.show_progress(runtime.progress)
    assert assistant.resume.isEnabled()
    runtime.cancel()
    assert manager.to_resume() is None
    assert assistant.pages.currentWidget() is assistant.proposal


def test_the_next_start_shows_what_has_arrived_before_a_pause_and_return_goes_on(
    qtbot: QtBot, index: PackageIndex, runtime: RuntimeLink, manager: RuntimeManager
) -> None:
    index.fail(BLOB, stall(after=150_000), times=99)
    with qtbot.waitSignal(runtime.ended):
        runtime.install(Wanted("cpu"))
        qtbot.waitUntil(lambda: runtime.progress.fetched.file_bytes == 150_000)
        runtime.pause()
    index.heal()
    index.release()
    later = RuntimeLink(manager)
    assert later.restore()
    again = EngineAssistant(later)
    qtbot.addWidget(again)
    again.show()
    assert later.progress.fetched.bytes_done >= 150_000
    assert " of " in again.progress.detail.text()
    assert again.progress.bar.value() > 0
    assert again.resume.isDefault()
    with qtbot.waitSignal(later.ended):
        QTest.keyClick(again, Qt.Key.Key_Return)
    assert later.progress.stage is Stage.DONE
    later.close()


def test_what_was_interrupted_goes_on_by_itself_at_the_next_start(
    qtbot: QtBot, runtime: RuntimeLink, manager: RuntimeManager, wheels: Path
) -> None:
    manager.place.want(Wanted("cpu", str(wheels)))
    with qtbot.waitSignal(runtime.ended):
        assert runtime.restore()
    assert runtime.installed is not None


def test_the_same_engine_is_repaired_from_the_same_folder_and_removed(
    qtbot: QtBot, runtime: RuntimeLink, wheels: Path
) -> None:
    with qtbot.waitSignal(runtime.ended):
        runtime.install(Wanted("cpu", str(wheels)))
    first = runtime.installed
    with qtbot.waitSignal(runtime.ended):
        runtime.repair()
    assert runtime.installed is not None
    assert runtime.installed != first
    with qtbot.waitSignal(runtime.removed):
        runtime.remove()
    assert runtime.installed is None


def test_what_a_replaced_engine_left_is_taken_away_at_the_next_start(
    qtbot: QtBot, runtime: RuntimeLink, manager: RuntimeManager, wheels: Path
) -> None:
    with qtbot.waitSignal(runtime.ended):
        runtime.install(Wanted("cpu", str(wheels)))
    first = runtime.installed
    with qtbot.waitSignal(runtime.ended):
        runtime.repair()
    assert first is not None
    assert first.python.is_file()
    assert not runtime.restore()
    qtbot.waitUntil(lambda: not first.folder.exists())
    assert runtime.installed is not None


def test_every_button_can_be_reached_and_only_the_right_one_is_pressed_by_return(assistant: EngineAssistant) -> None:
    for button in assistant.findChildren(QPushButton):
        assert button.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert assistant.install.isDefault()
    assert not assistant.cancel.autoDefault()
