"""An MCP server as a person has entered it, and as `mcp.json` holds it in the form that other programs use."""

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from app.system import json_text as json
from engine.protocol.tool_servers import ProgramServer, WebServer, is_address

LONGEST_NAME = 100
_MOST_WORDS, _LONGEST_WORD = 500, 32_768
_ADDRESSES = ("url", "serverUrl", "httpUrl")  # what the programs that write such files call it
_SSE = ("sse",)


@dataclass(frozen=True, slots=True)
class ToolServer:
    """`enabled`: a person has switched it on. `approved`: the mark of the command that a person has agreed to run.

    `tools_off`: the names of tools that are not offered.
    """

    name: str
    to: ProgramServer | WebServer
    enabled: bool = False
    approved: str = ""
    tools_off: tuple[str, ...] = ()

    @property
    def needs_approval(self) -> bool:
        """Whether it would start a program that a person has not seen."""
        return isinstance(self.to, ProgramServer) and self.approved != command_mark(self.to)

    @property
    def is_on(self) -> bool:
        """Whether it is to be connected to."""
        return self.enabled and not self.needs_approval

    @property
    def described(self) -> str:
        """What it starts, as a shell would be told, or its address."""
        return command_line(self.to) if isinstance(self.to, ProgramServer) else self.to.address


def command_line(program: ProgramServer) -> str:
    """The whole command line, with quotes where it needs them."""
    words = [program.command, *program.arguments]
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def command_mark(program: ProgramServer) -> str:
    """What tells a command from every other one, with its variables and its folder: these decide what it does, too."""
    parts = [program.command, program.arguments, sorted(program.environment.items()), program.folder]
    return sha256(json.dumps(parts).encode()).hexdigest()


def entry_of(name: str, record: object) -> ToolServer | None:
    """What a record of such a file means; None for one that is no server, or with a slash in its name."""
    if not isinstance(record, Mapping) or not name.strip() or len(name) > LONGEST_NAME or "/" in name:
        return None
    to = _place_of(record)
    if to is None:
        return None
    off = record.get("disabledTools")
    return ToolServer(
        name,
        to,
        record.get("enabled") is True,
        _text(record.get("approved")),
        tuple(each for each in off if isinstance(each, str)) if isinstance(off, list) else (),
    )


def _place_of(record: Mapping[str, Any]) -> ProgramServer | WebServer | None:
    address = next((record[name] for name in _ADDRESSES if isinstance(record.get(name), str)), "")
    command = _text(record.get("command"))
    if command.strip():
        words = record.get("args")
        arguments = tuple(map(str, words[:_MOST_WORDS])) if isinstance(words, list) else ()
        return ProgramServer(command, arguments, _texts(record.get("env")), _text(record.get("cwd")))
    if is_address(address):
        kind = _text(record.get("type")) or _text(record.get("transport"))
        known = "sse" if kind in _SSE else "http" if "http" in kind else ""
        return WebServer(address, _texts(record.get("headers")), known, record.get("allowPlainHttp") is True)
    return None


def _text(value: object) -> str:
    return value[:_LONGEST_WORD] if isinstance(value, str) else ""


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return {str(name): str(each) for name, each in list(value.items())[:_MOST_WORDS] if not isinstance(each, dict)}


def record_of(server: ToolServer, former: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a server, with whatever other programs have in the former one."""
    known = {"command", "args", "env", "cwd", *_ADDRESSES, "headers", "type", "transport", "allowPlainHttp", "approved"}
    record: dict[str, Any] = {name: value for name, value in former.items() if name not in known}
    to = server.to
    if isinstance(to, ProgramServer):
        record |= {"command": to.command, "args": list(to.arguments)}
        record |= {"env": dict(to.environment)} if to.environment else {}
        record |= {"cwd": to.folder} if to.folder else {}
        record |= {"approved": server.approved} if server.approved else {}
    else:
        record |= {"url": to.address}
        record |= {"headers": dict(to.headers)} if to.headers else {}
        record |= {"type": to.kind} if to.kind else {}
        record |= {"allowPlainHttp": True} if to.may_be_plain else {}
    record["enabled"] = server.enabled
    record.pop("disabledTools", None)
    return record | ({"disabledTools": list(server.tools_off)} if server.tools_off else {})
