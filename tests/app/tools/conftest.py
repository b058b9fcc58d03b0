"""What the tests of MCP servers share: servers that are played, in a process as the real ones have it."""

import sys
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from app.engine.program import EngineProgram
from app.settings.store import SettingsFile
from app.system.paths import Folders
from app.tools import servers as tool_servers
from app.tools.entry import ToolServer
from app.tools.servers import ToolServers
from app.tools.states import Phase
from engine.protocol.tool_servers import ProgramServer
from tests.app.conftest import PATIENCE_MS


class Played(EngineProgram):
    """Runs the played servers, whatever is to be run."""

    def beside(self, words: tuple[str, ...], log: object) -> "Played":
        return self


def played_program(folders: Folders) -> Played:
    """The program, with a log of its own."""
    words = (sys.executable, "-m", "tests.app.tools.played_servers")
    return Played(words, folders.tool_servers_log)


@pytest.fixture
def made(
    qtbot: QtBot, settings: SettingsFile, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ToolServers]:
    """No server, and a program that plays them; pauses before another try are short."""
    monkeypatch.setattr(tool_servers, "PAUSES_SECONDS", (0, 0))
    servers = ToolServers(played_program(folders), settings, folders)
    yield servers
    servers.close()


class Servers:
    """Adds servers to such an object, and waits for what becomes of them."""

    def __init__(self, servers: ToolServers, bot: QtBot) -> None:
        self.servers, self.bot = servers, bot

    def add(self, name: str, command: str = "fine", until: Phase = Phase.READY) -> None:
        """Switch a server on that does what its command says."""
        self.servers.save(ToolServer(name, ProgramServer(command)))
        self.servers.switch(name, True)
        self.wait(name, until)

    def wait(self, name: str, phase: Phase) -> None:
        """Until it stands so."""
        self.bot.waitUntil(lambda: self.servers.state(name).phase is phase, timeout=PATIENCE_MS)


@pytest.fixture
def ready(made: ToolServers, qtbot: QtBot) -> Servers:
    """The same, with what adds servers."""
    return Servers(made, qtbot)
