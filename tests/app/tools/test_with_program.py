"""The window with the real program and a real server, from switching it on to the end of the window."""

import sys

import psutil
import pytest
from pytestqt.qtbot import QtBot

from app.engine.program import PROCESS, EngineProgram
from app.preferences.tools.page import ToolsPage
from app.settings.store import SettingsFile
from app.shell.window import MainWindow
from app.system.paths import Folders
from app.tools.entry import ToolServer, command_mark
from app.tools.servers import ToolServers
from app.tools.states import Phase
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink
from tests.app.tools.test_servers import called
from tests.engine.tool_servers.asked import STUB


def test_a_server_that_was_switched_on_is_there_with_the_window_and_ends_with_it(
    open_window: OpenWindow, settings: SettingsFile, folders: Folders, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ToolServers(EngineProgram(("nothing",), folders.engine_log), settings, folders)
    before.save(ToolServer("stub", STUB, enabled=True, approved=command_mark(STUB)))
    before.close()
    link = FakeLink()
    link._program = EngineProgram((sys.executable, *PROCESS), folders.engine_log)
    window = open_window(link)
    toolbox = window.program.toolbox
    qtbot.waitUntil(lambda: toolbox.state("stub").phase is Phase.READY)
    assert "stub__add" in [each.function for each in window.chat.tools.offered]
    assert called(toolbox, qtbot, "stub__add", a=20, b=3).text == "23"
    [program] = [each for each in psutil.Process().children() if "engine.tool_servers" in each.cmdline()]
    servers = [each for each in program.children() if each.name() != "conhost.exe"]  # which Windows starts beside them
    assert servers
    window.close()
    assert psutil.wait_procs([program, *servers], timeout=30)[1] == []


def test_a_notice_leads_to_the_page(window: MainWindow, qtbot: QtBot) -> None:
    window.program.toolbox.page_wanted.emit()
    dialog = window.program.preferences.dialog
    assert dialog is not None
    assert isinstance(dialog.stack.currentWidget(), ToolsPage)
    dialog.reject()
