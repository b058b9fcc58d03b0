"""MCP servers in the window: which are on, what becomes of those that fail, and calls of their tools."""

import json
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.settings.store import SettingsFile
from app.system.paths import Folders
from app.tools import servers as tool_servers
from app.tools.entry import ToolServer
from app.tools.servers import ToolServers
from app.tools.states import Phase
from app.tools.toolbox import Toolbox, ToolResult
from app.ui.notices import Notice
from engine.protocol.tool_servers import ProgramServer, WebServer
from tests.app.tools.conftest import Servers, played_program
from tests.engine.served import raises


def called(servers: ToolServers, bot: QtBot, function: str, **arguments: object) -> ToolResult:
    """What a call comes to."""
    with bot.waitSignal(servers.answered) as answered:
        number = servers.call(function, json.dumps(arguments))
    assert answered.args is not None
    assert answered.args[0] == number
    result: ToolResult = answered.args[1]
    return result


def is_running(servers: ToolServers) -> bool:
    """Whether there is a process."""
    return servers._link is not None


def test_no_process_runs_before_a_server_is_switched_on(made: ToolServers) -> None:
    made.save(ToolServer("one", ProgramServer("fine")))
    made.begin()
    assert not is_running(made)
    assert made.state("one").phase is Phase.OFF


def test_it_is_a_toolbox(ready: Servers) -> None:
    toolbox: Toolbox = ready.servers
    with ready.bot.waitSignal(toolbox.tools_changed):
        ready.add("one")
    assert [each.function for each in toolbox.tools] == ["one__echo", "one__other"]
    first = toolbox.tools[0]
    assert (first.server, first.name, first.description) == ("one", "echo", "Says it again.")
    assert first.changes_nothing


def test_a_call_is_answered_with_texts_and_sentences(ready: Servers) -> None:
    ready.add("one")
    result = called(ready.servers, ready.bot, "one__echo", a="ä")
    assert result == ToolResult('{"a": "\\u00e4"}\n[picture, image/png, 1 B]', False, 0.5)


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        ("none__echo", "{}", "There is no tool of this name."),
        ("one__echo", "[]", "The arguments are no JSON object."),
        ("one__echo", "{", "The arguments are no JSON object."),
    ],
)
def test_what_cannot_be_called_is_a_result_that_says_so(
    ready: Servers, function: str, arguments: str, words: str
) -> None:
    ready.add("one")
    with ready.bot.waitSignal(ready.servers.answered) as answered:
        number = ready.servers.call(function, arguments)
    assert answered.args == [number, ToolResult(words, is_error=True)]


def test_a_call_can_be_stopped_and_is_answered_once(ready: Servers) -> None:
    ready.add("one")
    answers: list[tuple[int, ToolResult]] = []
    ready.servers.answered.connect(lambda number, result: answers.append((number, result)))
    with ready.bot.waitSignal(ready.servers.progressed) as progressed:
        number = ready.servers.call("one__echo", '{"wait": 1}')
    assert progressed.args == [number, 1.0, 2.0, "half"]
    ready.servers.cancel(number)
    assert answers == [(number, ToolResult("The call was stopped.", is_error=True))]
    called(ready.servers, ready.bot, "one__echo")  # by then the program has said that it was stopped, too
    assert [each[0] for each in answers] == [number, number + 1]
    ready.servers.cancel(number)


def test_a_server_that_breaks_is_started_again_and_that_is_said(ready: Servers) -> None:
    ready.add("one")
    notices: list[Notice] = []
    ready.servers.notice_raised.connect(notices.append)
    with ready.bot.waitSignal(ready.servers.notice_withdrawn):
        called(ready.servers, ready.bot, "one__echo", word="break")
    assert ready.servers.state("one").phase is Phase.READY
    assert [each.message for each in notices] == ["The tool server 'one' has ended, and is started again."]
    assert notices[0].hint == "It broke."


def test_a_server_that_cannot_be_started_is_given_up_after_some_tries(ready: Servers) -> None:
    notices: list[Notice] = []
    ready.servers.notice_raised.connect(notices.append)
    ready.add("one", "dies", Phase.FAILED)
    state = ready.servers.state("one")
    assert (state.message, state.hint, state.lines) == ("It died.", "Feed it.", ("no food",))
    assert [each.message for each in notices] == ["The tool server 'one' cannot be used: It died."]
    assert notices[0].action == "Tools…"


def test_what_will_not_pass_is_not_tried_again(ready: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_servers, "PAUSES_SECONDS", (600,))
    ready.add("one", "refuses", Phase.FAILED)
    ready.add("two", "dies", Phase.WAITING)
    ready.servers.connect_to("two")
    assert ready.servers.state("two").phase is Phase.CONNECTING, "a person does not wait for a pause"


def test_a_program_that_dies_takes_all_servers_with_it_for_a_moment(ready: Servers) -> None:
    ready.add("one")
    ready.add("two")
    result = called(ready.servers, ready.bot, "one__echo", word="exit")
    assert result == ToolResult("The connection to the server ended during the call.", is_error=True)
    for name in ("one", "two"):
        ready.wait(name, Phase.READY)


@pytest.mark.parametrize(("command", "message"), [("missing", "The engine is too old."), ("rubbish", "The program")])
def test_a_program_that_cannot_serve(
    ready: Servers, command: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready.add("one", command, Phase.FAILED)
    assert ready.servers.state("one").message.startswith(message)


def test_an_engine_that_is_not_there_is_told(ready: Servers, folders: Folders, settings: SettingsFile) -> None:
    program = played_program(folders)
    object.__setattr__(program, "arguments", ("/no/such/python",))
    servers = Servers(ToolServers(program, settings, folders), ready.bot)
    servers.add("one", until=Phase.FAILED)
    assert servers.servers.state("one").message.startswith("The program that holds the connections could not be")


def test_tools_that_change_are_offered_at_once(ready: Servers) -> None:
    ready.add("one")
    with ready.bot.waitSignal(ready.servers.tools_changed):
        ready.servers.call("one__echo", '{"word": "change"}')
    assert [each.name for each in ready.servers.tools] == ["echo"]
    assert ready.servers.state("one").left_out == 3


def test_a_tool_can_be_switched_off(ready: Servers) -> None:
    ready.add("one")
    ready.servers.switch_tool("one", "echo", False)
    assert [each.name for each in ready.servers.tools] == ["other"]
    ready.servers.switch_tool("one", "echo", True)
    assert [each.name for each in ready.servers.tools] == ["echo", "other"]


def test_the_last_server_that_is_switched_off_ends_the_program(ready: Servers) -> None:
    ready.add("one")
    ready.add("two")
    ready.servers.call("one__echo", '{"wait": 1}')
    ready.servers.switch("two", False)
    assert is_running(ready.servers)
    with ready.bot.waitSignal(ready.servers.answered) as answered:
        ready.servers.switch("one", False)
    assert answered.args is not None
    assert answered.args[1].is_error
    assert not is_running(ready.servers)
    assert ready.servers.tools == ()
    ready.servers.switch("one", True)
    ready.wait("one", Phase.READY)


def test_what_is_on_is_connected_at_the_next_start(ready: Servers, folders: Folders, settings: SettingsFile) -> None:
    ready.add("one")
    ready.servers.save(ToolServer("two", ProgramServer("fine"), enabled=True))  # nobody has seen what it starts
    again = Servers(ToolServers(played_program(folders), settings, folders), ready.bot)
    again.servers.begin()
    again.wait("one", Phase.READY)
    assert again.servers.state("two").phase is Phase.OFF
    again.servers.begin()  # as every window does that is shown
    assert again.servers.state("one").phase is Phase.READY
    again.servers.close()


def allow(settings: SettingsFile, *tools: str) -> None:
    """As if a person had said so of these."""
    settings.change(allowed_tools=tools)


def test_what_was_allowed_holds_for_that_server_alone(ready: Servers, settings: SettingsFile) -> None:
    ready.add("one")
    allow(settings, "one/echo", "ones/echo")
    server = ready.servers.file.server("one")
    assert server is not None
    ready.servers.save(server)
    assert set(ready.servers.allowed) == {"one/echo", "ones/echo"}, "nothing has changed"
    put_back = ready.servers.remove("one")
    assert set(ready.servers.allowed) == {"ones/echo"}
    put_back()
    assert set(ready.servers.allowed) == {"one/echo", "ones/echo"}
    ready.wait("one", Phase.READY)
    ready.servers.save(ToolServer("one", WebServer("https://tools.example/mcp")))
    assert set(ready.servers.allowed) == {"ones/echo"}
    ready.servers.forbid("ones/echo")
    assert not ready.servers.allowed


def test_what_others_write_into_the_file_starts_no_command_that_nobody_has_seen(ready: Servers) -> None:
    ready.add("one")
    ready.add("three")
    ready.servers.switch("three", False)
    file = ready.servers.file.path
    document: dict[str, Any] = json.loads(file.read_text())
    document["mcpServers"]["one"]["args"] = ["--else"]
    document["mcpServers"]["two"] = {"command": "fine", "enabled": True}
    document["mcpServers"]["three"]["enabled"] = True
    file.write_text(json.dumps(document))
    ready.servers.refresh()
    assert [each.name for each in ready.servers.servers] == ["one", "three", "two"]
    ready.wait("three", Phase.READY)
    assert [ready.servers.state(name).phase for name in ("one", "two")] == [Phase.OFF, Phase.OFF]


def test_a_file_that_cannot_be_written_is_told(ready: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    notices: list[Notice] = []
    ready.servers.notice_raised.connect(notices.append)
    with monkeypatch.context() as patch:
        patch.setattr("app.tools.server_file.write_private", raises(OSError(28, "No space left on device")))
        ready.servers.save(ToolServer("one", ProgramServer("fine")))
    words = "The list of tool servers cannot be saved in mcp.json: No space left on device."
    assert [each.message for each in notices] == [words]
    with ready.bot.waitSignal(ready.servers.notice_withdrawn):
        ready.servers.save(ToolServer("one", ProgramServer("fine")))


def test_a_file_that_cannot_be_read_is_set_aside_and_told(ready: Servers) -> None:
    file = ready.servers.file.path
    file.write_text("{broken")
    notices: list[Notice] = []
    ready.servers.notice_raised.connect(notices.append)
    ready.servers.refresh()
    assert notices[0].message == "The list of tool servers could not be read, and begins anew: it is damaged."
    assert file.with_name("mcp.damaged.json").read_text() == "{broken"
    ready.servers.save(ToolServer("one", ProgramServer("fine")))
    assert len(notices) == 1
