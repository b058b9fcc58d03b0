"""What a call came to, in texts for a model: what is no text is told in a sentence."""

import json
from collections.abc import Iterator

import mcp_types as types

from engine.protocol.sentences import Amount, Sentence, say

MOST_CHARACTERS = 1_000_000
_LONGEST_KIND, _LONGEST_ADDRESS = 80, 2000


def parts_of(result: types.CallToolResult) -> tuple[str, ...]:
    """The texts of a result; its structured content, as JSON, where it has none."""
    parts = list(_parts(result.content))
    has_text = any(not isinstance(each, Sentence) and each.strip() for each in parts)
    if not has_text and result.structured_content is not None:
        parts.insert(0, json.dumps(result.structured_content, ensure_ascii=False))
    return cut(parts or [say("The tool gave no result.")])


def _parts(content: list[types.ContentBlock]) -> Iterator[str]:
    for block in content:
        match block:
            case types.TextContent():
                yield block.text
            case types.ImageContent():
                yield say("[picture, {kind}, {size}]", kind=_kind(block.mime_type), size=_size(block.data))
            case types.AudioContent():
                yield say("[sound, {kind}, {size}]", kind=_kind(block.mime_type), size=_size(block.data))
            case types.ResourceLink():
                yield say("[link: {address}]", address=str(block.uri)[:_LONGEST_ADDRESS])
            case types.EmbeddedResource(resource=types.TextResourceContents() as inside):
                yield inside.text
            case types.EmbeddedResource(resource=types.BlobResourceContents() as inside):
                yield say("[file, {kind}, {size}]", kind=_kind(inside.mime_type or ""), size=_size(inside.blob))


def _kind(mime_type: str) -> str:
    printable = "".join(each for each in mime_type[:_LONGEST_KIND] if each.isprintable())
    return printable or "application/octet-stream"


def _size(base64: str) -> Amount:
    nbytes = len(base64) * 3 // 4 - base64[-2:].count("=")
    if nbytes >= 1_000_000:
        return Amount(f"{nbytes / 1e6:,.1f} MB")
    return Amount(f"{nbytes / 1e3:,.0f} kB" if nbytes >= 1000 else f"{nbytes} B")


def cut(parts: list[str]) -> tuple[str, ...]:
    """The parts, up to a million characters together; what is left out is said."""
    room = MOST_CHARACTERS
    for place, part in enumerate(parts):
        if len(part) > room:
            total = sum(map(len, parts))
            words = say(
                "[cut: the first {shown} of {total} characters]",
                shown=Amount(f"{MOST_CHARACTERS:,}"),
                total=Amount(f"{total:,}"),
            )
            return (*parts[:place], *([part[:room]] if room else []), words)
        room -= len(part)
    return tuple(parts)
