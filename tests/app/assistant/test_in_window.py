"""The window of a Coppice that installs its engine by itself, and of one that need not."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from app.engine.program import EngineProgram, RuntimeProgram, engine_program
from app.installation.assistant.dialog import EngineAssistant
from app.installation.link import RuntimeLink
from app.installation.runtime.manager import MissingRuntimeError, RuntimeManager, runtime_manager
from app.installation.runtime.place import Wanted
from app.installation.runtime.progress import InstallProgress, Stage
from app.preferences.dialog import PreferencesDialog
from app.preferences.engine_page import EnginePage
from app.shell.engine_setup import RUNTIME_NOTICE, EngineSetup
from app.shell.window import ENGINE_NOTICE, MainWindow
from app.shell.wiring import connect_runtime
from app.system.paths import Folders
from engine.protocol.messages import Failed, Generate
from tests.app.fake_link import FakeLink


@pytest.fixture
def room(window: MainWindow, runtime: RuntimeLink) -> Iterator[EngineSetup]:
    """The room of a window in front of a fake engine."""
    made = EngineSetup(window.program, runtime)
    yield made
    made.close()


def bars(window: MainWindow) -> list[str]:
    """The keys of the bars that are shown."""
    return [notice.key for notice in window.notices.notices]


def page_of(window: MainWindow) -> EnginePage:
    """The engine's page in Preferences, on the screen."""
    dialog = preferences(window)
    page = next(each for each in dialog.pages if isinstance(each, EnginePage))
    dialog.list.setCurrentRow(dialog.pages.index(page))
    return page


def preferences(window: MainWindow) -> PreferencesDialog:
    """The dialog, on the screen."""
    window.actions_.preferences.trigger()
    made = window.program.preferences.dialog
    assert made is not None
    return made


def test_from_a_checkout_there_is_nothing_of_it(window: MainWindow, folders: Folders) -> None:
    connect_runtime(window.program, runtime_manager(folders))
    assert not [each for each in preferences(window).pages if isinstance(each, EnginePage)]
    assert window.findChildren(EngineAssistant) == []


def test_the_first_start_shows_the_assistant_and_an_engine_that_was_installed_is_started(
    window: MainWindow, link: FakeLink, room: EngineSetup, runtime: RuntimeLink
) -> None:
    room.begin()
    assert room.assistant.isVisible()
    assert not room.assistant.isModal()

    runtime.changed.emit(InstallProgress(Stage.CHECKING))
    assert bars(window) == [RUNTIME_NOTICE]
    runtime.ended.emit(InstallProgress(Stage.DONE))
    assert "restart" in link.said
    assert bars(window) == []


def test_the_bar_says_that_it_goes_on_however_quick_its_first_step_was(
    window: MainWindow, room: EngineSetup, runtime: RuntimeLink
) -> None:
    runtime.ended.emit(InstallProgress(Stage.PAUSED))
    assert "paused" in window.notices.notices[0].message
    runtime.changed.emit(InstallProgress(Stage.DOWNLOADING))
    assert "is being installed" in window.notices.notices[0].message
    window.notices.dismiss(RUNTIME_NOTICE)
    runtime.changed.emit(InstallProgress(Stage.INSTALLING))
    assert bars(window) == [], "who has closed it need not see it again with every step"


def test_a_window_with_a_runtime_to_look_after_begins_by_itself(
    qtbot: QtBot, window: MainWindow, manager: RuntimeManager
) -> None:
    connect_runtime(window.program, manager)
    qtbot.waitUntil(lambda: any(each.isVisible() for each in window.findChildren(EngineAssistant)))
    (assistant,) = window.findChildren(EngineAssistant)
    window.close()
    assert not assistant.isVisible()


def test_without_an_engine_the_bar_offers_to_install_one(window: MainWindow, room: EngineSetup) -> None:
    window.link.engine_stopped.emit(Failed(0, "The engine is not installed yet."))
    assert bars(window) == [RUNTIME_NOTICE]
    window.notices.act(RUNTIME_NOTICE)
    assert room.assistant.isVisible()


def test_an_engine_that_dies_later_is_told_as_ever(
    qtbot: QtBot, window: MainWindow, room: EngineSetup, runtime: RuntimeLink, wheels: Path
) -> None:
    with qtbot.waitSignal(runtime.ended):
        runtime.install(Wanted("cpu", str(wheels)))
    window.link.engine_stopped.emit(Failed(0, "The engine crashed (SIGSEGV)."))
    assert bars(window) == [ENGINE_NOTICE]


def test_a_failure_behind_the_window_is_told(
    qtbot: QtBot, window: MainWindow, room: EngineSetup, runtime: RuntimeLink, tmp_path: Path
) -> None:
    with qtbot.waitSignal(runtime.ended):
        runtime.install(Wanted("cpu", str(tmp_path / "nowhere")))
    assert [notice.message for notice in window.notices.notices] == [f"There is no folder {tmp_path / 'nowhere'}."]


def test_where_the_network_is_forbidden_only_a_folder_is_offered(
    window: MainWindow, room: EngineSetup, runtime: RuntimeLink, manager: RuntimeManager
) -> None:
    window.settings.change(offline=True)
    manager.place.want(Wanted("cpu"))
    room.begin()
    assert runtime.progress.stage is Stage.PAUSED
    assert not runtime.is_busy
    room.assistant.choose()
    assert room.assistant.proposal.local.isChecked()
    assert not room.assistant.proposal.local.isEnabled()
    assert room.assistant.proposal.wanted is None


def test_trying_the_embedded_model_asks_it(window: MainWindow, link: FakeLink, room: EngineSetup) -> None:
    room.assistant.try_requested.emit()
    asked = [each for each in link.sent if isinstance(each, Generate)]
    assert len(asked) == 1
    assert "dragon" in asked[0].chat[-1].content


def test_preferences_tell_of_the_engine_and_remove_it(
    qtbot: QtBot, window: MainWindow, room: EngineSetup, runtime: RuntimeLink, wheels: Path
) -> None:
    with qtbot.waitSignal(runtime.ended):
        runtime.install(Wanted("cpu", str(wheels)))
    page = page_of(window)
    assert page.state.text() == "Processor only"
    assert "9.1.0+tiny" in page.about.text()
    assert not page.update_.isVisible()
    page.remove.click()
    page.confirm.setFocus()
    page.question.reject()
    page.remove.click()
    assert page.question.focusWidget() is page.question.button(QMessageBox.StandardButton.Cancel)
    with qtbot.waitSignal(runtime.removed):
        page.confirm.click()
        assert "being removed" in page.state.text()
        assert not page.change.isEnabled()
        assert not page.repair.isEnabled()
    assert page.change.isEnabled()
    assert "No engine" in page.state.text()
    assert not page.repair.isVisible()


def test_preferences_make_way_for_the_assistant(qtbot: QtBot, window: MainWindow, room: EngineSetup) -> None:
    page = page_of(window)
    page.change.click()
    assert not page.isVisible()
    assert room.assistant.isVisible()


def test_a_newer_lock_is_an_update(
    qtbot: QtBot, window: MainWindow, room: EngineSetup, runtime: RuntimeLink, wheels: Path, tmp_path: Path
) -> None:
    with qtbot.waitSignal(runtime.ended):
        runtime.install(Wanted("cpu", str(wheels)))
    lock = tmp_path / "parts" / "locks" / "cpu.json"
    lock.write_text(lock.read_text("utf-8").replace('"python": "3.11"', '"python": "3.12"'))
    room.begin()
    assert bars(window) == [RUNTIME_NOTICE]
    page = page_of(window)
    assert page.update_.isVisible()
    with qtbot.waitSignal(runtime.ended):
        page.update_.click()
    assert not runtime.manager.is_outdated()


def test_the_engine_is_that_of_the_runtime_or_there_is_none(
    qtbot: QtBot,
    manager: RuntimeManager,
    runtime: RuntimeLink,
    wheels: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = engine_program(tmp_path / "log", manager)
    assert isinstance(program, RuntimeProgram)
    with pytest.raises(MissingRuntimeError, match="not installed yet"):
        program.find()
    with qtbot.waitSignal(runtime.ended):
        runtime.install(Wanted("cpu", str(wheels)))
    monkeypatch.setenv("PYTHONHOME", "/bundle")
    arguments, environment = program.find()
    assert runtime.installed is not None
    assert arguments == (str(runtime.installed.python), "-m", "engine.process")
    assert "PYTHONHOME" not in environment
    monkeypatch.setenv("COPPICE_ENGINE_PYTHON", "/opt/python")
    assert type(engine_program(tmp_path / "log", manager)) is EngineProgram
