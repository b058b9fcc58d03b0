"""Servers as their file holds them, as other programs' files do, and as models know their tools."""

import json
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.entry import ToolServer, command_mark, entry_of, record_of
from app.tools.names import LONGEST, function_names
from app.tools.server_file import ServerFile
from app.tools.snippet import read_snippet
from engine.errors import InputError
from engine.protocol.tool_servers import ProgramServer, WebServer

PROGRAM = ProgramServer("npx", ("-y", "server"), {"KEY": "secret"}, "/home")
WEB = WebServer("https://tools.example/mcp", {"Authorization": "Bearer 1"}, "sse")


# ---- entries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "server",
    [
        ToolServer("a", PROGRAM, True, "mark", ("one", "two")),
        ToolServer("b", WEB),
        ToolServer("c", WebServer("http://tools.example", may_be_plain=True), True),
    ],
)
def test_a_record_says_what_the_server_is(server: ToolServer) -> None:
    assert entry_of(server.name, json.loads(json.dumps(record_of(server, {})))) == server


def test_what_others_have_in_a_record_stays() -> None:
    former = {"command": "old", "timeout": 60, "autoApprove": ["x"], "env": {"A": "1"}, "url": "https://x"}
    assert record_of(ToolServer("a", ProgramServer("new")), former) == {
        "command": "new", "args": [], "timeout": 60, "autoApprove": ["x"], "enabled": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "record",
    [
        None, [], {}, {"command": ""}, {"command": 7}, {"url": "ftp://x"}, {"url": "https://name:word@x"},
        {"args": ["x"]},
    ],
)  # fmt: skip
def test_what_is_no_server_is_none(record: object) -> None:
    assert entry_of("a", record) is None


def test_a_name_with_a_slash_would_be_taken_for_a_server_and_a_tool() -> None:
    assert entry_of("a/b", {"command": "x"}) is None
    assert [each.name for each in read_snippet('{"a/b": {"command": "x"}}').servers] == ["a-b"]


def test_a_command_has_to_be_agreed_to_anew_whenever_it_does_something_else() -> None:
    server = ToolServer("a", PROGRAM, True, command_mark(PROGRAM))
    assert server.is_on
    others = (
        ProgramServer("npm", *_parts(PROGRAM)), ProgramServer("npx", ("-y", "other"), *_parts(PROGRAM)[1:]),
        ProgramServer("npx", PROGRAM.arguments, {"KEY": "other"}, "/home"), ProgramServer("npx", PROGRAM.arguments),
    )  # fmt: skip
    for other in others:
        assert not ToolServer("a", other, True, server.approved).is_on


def _parts(program: ProgramServer) -> tuple[tuple[str, ...], dict[str, str], str]:
    return program.arguments, dict(program.environment), program.folder


# ---- the file -------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> ServerFile:
    """One that is not there yet."""
    return ServerFile(tmp_path / "mcp.json")


def names(file: ServerFile) -> list[str]:
    """Of its servers, in their order."""
    return [each.name for each in file.servers]


def test_servers_are_kept_with_all_that_others_wrote(file: ServerFile) -> None:
    foreign = {"inputs": [1], "mcpServers": {"odd": {"kind": "none"}, "old": {"command": "x", "timeout": 3}}}
    file.path.write_text(json.dumps(foreign))
    file.put(ToolServer("new", PROGRAM))
    file.put(ToolServer("newer", ProgramServer("y")), "old")
    written = json.loads(file.path.read_text())
    assert written["inputs"] == [1]
    assert list(written["mcpServers"]) == ["odd", "newer", "new"]
    assert written["mcpServers"]["newer"] == {"command": "y", "args": [], "timeout": 3, "enabled": False}
    assert names(ServerFile(file.path)) == ["newer", "new"]


def test_a_removed_server_comes_back_to_its_place(file: ServerFile) -> None:
    for name in ("a", "b", "c"):
        file.put(ToolServer(name, PROGRAM))
    put_back = file.remove("b")
    assert names(file) == ["a", "c"]
    file.put(ToolServer("d", PROGRAM))
    put_back()
    assert names(file) == ["a", "b", "c", "d"]
    assert file.server("b") == ToolServer("b", PROGRAM)


def test_a_renamed_server_takes_the_place_of_one_of_that_name(file: ServerFile) -> None:
    for name in ("a", "b"):
        file.put(ToolServer(name, ProgramServer(name)))
    file.put(ToolServer("b", PROGRAM), "a")
    assert file.servers == (ToolServer("b", PROGRAM),)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions")
def test_the_file_is_its_owners_alone(file: ServerFile) -> None:
    file.put(ToolServer("a", PROGRAM))
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_file_that_is_none_is_set_aside(file: ServerFile, content: bytes) -> None:
    file.path.write_bytes(content)
    read = ServerFile(file.path)
    assert read.servers == ()
    assert read.reason
    assert read.set_aside is not None
    assert read.set_aside.read_bytes() == content


# ---- what other programs have ---------------------------------------------------------------------------------------


ONE = '{"command": "npx", "args": ["-y", "@scope/server-files", "/home"], "enabled": true, "approved": "x"}'


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"files": ' + ONE + "}}",
        '{"servers": {"files": ' + ONE + '}, "inputs": []}',
        '{"mcp": {"servers": {"files": ' + ONE + "}}}",
        '"mcpServers": {"files": ' + ONE + "},",
        '{"files": ' + ONE + "}",
        ' "files": ' + ONE + "\n",
    ],
)
def test_a_configuration_is_read_from_whatever_stands_around_it(text: str) -> None:
    found = read_snippet(text)
    assert found.servers == (ToolServer("files", ProgramServer("npx", ("-y", "@scope/server-files", "/home"))),)
    assert not found.gaps


def test_a_server_without_a_name_gets_one() -> None:
    assert read_snippet('{"command": "uvx", "args": ["mcp-server-git", "--verbose"]}').servers[0].name == (
        "mcp-server-git"
    )
    assert read_snippet('{"url": "https://tools.example/mcp"}').servers[0].name == "mcp"


def test_several_servers_and_what_is_none_and_what_is_to_be_filled_in() -> None:
    text = {
        "a": {"command": "x", "env": {"KEY": "${input:key}"}},
        "b": {"type": "streamable-http", "serverUrl": "https://x.example", "headers": {"A": "<your key>"}},
        "c": {"type": "sse", "url": "https://x.example"},
        "d": {"what": "ever"},
    }
    found = read_snippet(json.dumps({"mcpServers": text}))
    assert [each.name for each in found.servers] == ["a", "b", "c"]
    assert [each.to.kind for each in found.servers if isinstance(each.to, WebServer)] == ["http", "sse"]
    assert (found.unread, found.gaps) == (("d",), ("a", "b"))


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "{}", '{"a": 1}', "7", '{"mcpServers": {"a": {}}}', "\ud83d"])
def test_what_holds_no_server_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        read_snippet(text)


# ---- names for models -----------------------------------------------------------------------------------------------


def test_names_tell_server_and_tool() -> None:
    places = [("files", "read"), ("My Files!", "read/all"), ("a", "b"), ("ä", "ö")]
    assert list(function_names(places).values()) == ["files__read", "My_Files__read_all", "a__b", "server__tool"]


def test_names_that_would_be_the_same_are_told_apart_in_any_order() -> None:
    places = [("a b", "read"), ("a-b", "read"), ("a.b", "read"), ("x", "y" * 100), ("x", "y" * 101)]
    found = function_names(places)
    assert found == function_names(places[::-1])
    assert found["a-b", "read"] == "a-b__read"
    assert found["a b", "read"].startswith("a_b__read_")


@given(st.sets(st.tuples(st.text(max_size=80), st.text(max_size=80)), max_size=30))
def test_every_name_is_one_of_its_own_that_models_take(places: set[tuple[str, str]]) -> None:
    found = function_names(places)
    assert len(set(found.values())) == len(places)
    for name in found.values():
        assert 0 < len(name) <= LONGEST
        assert name.isascii()
        assert all(each.isalnum() or each in "_-" for each in name)
