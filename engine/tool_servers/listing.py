"""A server's tools as the window is told of them: few enough, and none of them large."""

import json
from typing import Protocol

import mcp_types as types

from engine.protocol.tool_servers import ToolFacts

MOST_TOOLS = 128
MOST_PAGES = 64
MOST_SCHEMA_CHARACTERS = 65_536
_LONGEST_NAME, _LONGEST_TITLE, _LONGEST_DESCRIPTION = 256, 256, 8192  # characters


class Lister(Protocol):
    """What a session of the SDK is to this file."""

    async def list_tools(self, *, params: types.PaginatedRequestParams | None = None) -> types.ListToolsResult:
        """A page of the tools."""
        ...


async def listed(session: Lister) -> tuple[tuple[ToolFacts, ...], int]:
    """The tools, in the server's order, and how many are left out: of a name that was there, too many, too large."""
    found: dict[str, ToolFacts] = {}
    left_out, cursor = 0, None
    for _ in range(MOST_PAGES):
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor) if cursor else None)
        for tool in page.tools:
            facts = _facts(tool) if len(found) < MOST_TOOLS and tool.name not in found else None
            if facts is None:
                left_out += 1
            else:
                found[tool.name] = facts
        cursor = page.next_cursor
        if not cursor or left_out + len(found) > 2 * MOST_TOOLS:
            break
    return tuple(found.values()), left_out


def _facts(tool: types.Tool) -> ToolFacts | None:
    """None for a tool whose name or schema is larger than any that is meant for a model."""
    schema = json.dumps(tool.input_schema)
    if not tool.name or len(tool.name) > _LONGEST_NAME or len(schema) > MOST_SCHEMA_CHARACTERS:
        return None
    hints = tool.annotations
    title = tool.title or (hints.title if hints else None) or ""
    return ToolFacts(
        tool.name,
        title[:_LONGEST_TITLE],
        (tool.description or "")[:_LONGEST_DESCRIPTION],
        schema,
        bool(hints and hints.read_only_hint),
    )
