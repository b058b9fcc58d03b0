"""Configurations of MCP servers as other programs have them, and as their servers' pages offer them for copying."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.i18n.translation import tr
from app.system import json_text as json
from app.system.plain_text import well_formed
from app.tools.entry import ToolServer, entry_of
from engine.errors import InputError

MOST_CHARACTERS = 1 << 20
_LISTS = ("mcpServers", "servers", "context_servers")
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}|<[A-Za-z][A-Za-z _-]*>|YOUR[_-][A-Z_-]+")


@dataclass(frozen=True, slots=True)
class Snippet:
    """`servers`: what it has, all of them off. `unread`: names of what is no server.

    `gaps`: names of servers in which something is yet to be filled in, such as `${API_KEY}`.
    """

    servers: tuple[ToolServer, ...]
    unread: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


def read_snippet(text: str) -> Snippet:
    """The servers in a text. Raises `InputError` where there is none."""
    records = {name.replace("/", "-"): record for name, record in _records(text).items()}
    found = {name: entry_of(name, _bare(record)) for name, record in records.items()}
    servers = tuple(each for each in found.values() if each is not None)
    if not servers:
        raise InputError(
            tr("There is no server in it."), tr("A server has a command or an url, under a name of its own.")
        )
    unread = tuple(name for name, each in found.items() if each is None)
    gaps = tuple(each.name for each in servers if _PLACEHOLDER.search(json.dumps(records[each.name])))
    return Snippet(servers, unread, gaps)


def _records(text: str) -> Mapping[str, Any]:
    value = _parsed(well_formed(text[:MOST_CHARACTERS]).strip().rstrip(","))
    if isinstance(value.get("mcp"), dict):
        value = value["mcp"]
    for name in _LISTS:
        if isinstance(value.get(name), dict):
            records: dict[str, Any] = value[name]
            return records
    if "command" in value or "url" in value:  # a server without its name
        return {_name_of(value): value}
    return value


def _parsed(text: str) -> dict[str, Any]:
    """Also without the braces around it, as pages show it."""
    for each in (text, "{" + text + "}"):
        try:
            return json.parse_object(each.encode())
        except ValueError:
            continue
    raise InputError(tr("This is no JSON."), tr("Paste the whole text, from the first brace to the last."))


def _name_of(record: Mapping[str, Any]) -> str:
    words = [str(record.get("command") or record.get("url")), *map(str, record.get("args") or ())]
    name = next((each for each in reversed(words) if each and not each.startswith("-")), words[0])
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1][:40] or tr("Server")


def _bare(record: object) -> object:
    """Without what is ours: nobody but a person here switches a server on, or agrees to what it starts."""
    if not isinstance(record, dict):
        return record
    ours = ("enabled", "approved", "allowPlainHttp", "disabledTools")
    return {name: value for name, value in record.items() if name not in ours}
