"""Cuts a block that grows without end into pieces, so that what is drawn again stays short."""

import re
from dataclasses import dataclass, replace

from markdown_it import MarkdownIt
from markdown_it.token import Token

_CODE_LINES = 40
_LINES = 24  # rows of a table, lines of a list
_CHARACTERS = 2_500  # without a place to cut at, a word is cut in two
_FAR_TOO_LONG = 16_000  # then a block is cut wherever a line ends, even if it looks different for it

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Block:
    """The Markdown of one block, or a piece of a long one.

    `continues` says that it goes on where the block before it was cut. `number` is that of the first item of a list
    that goes on. `is_cut` says of a table that it has, or will have, other pieces; `splits_line` says of a piece of
    code that its last line goes on in the next one.
    """

    source: str
    continues: bool = False
    number: int = 0
    is_cut: bool = False
    splits_line: bool = False


Cut = tuple[Block, Block]  # what is closed, and what stays open behind it


def take_piece(tail: Block, parser: MarkdownIt) -> Cut | None:
    """The beginning of an open block that has grown long, and the rest; None while it is short enough."""
    opening = _FENCE.match(tail.source)
    if opening is not None:
        return _piece_of_code(tail, opening[1])
    lines = lines_of(tail.source)
    if len(lines) <= _LINES and len(tail.source) <= _CHARACTERS:
        return None
    tokens = parser.parse("".join(lines[:-1]) or tail.source)
    kind = tokens[0].type if tokens else ""
    if kind == "table_open" and (cut := _piece_of_table(tail, lines)):
        return cut
    if kind in ("ordered_list_open", "bullet_list_open") and (cut := _piece_of_list(tail, lines, tokens)):
        return cut
    if kind == "paragraph_open" and len(tail.source) > _CHARACTERS:
        return _piece_of_text(tail)
    return _piece_of_text(tail) if len(tail.source) > _FAR_TOO_LONG else None


def lines_of(text: str) -> list[str]:
    """The lines as the parser counts them; `str.splitlines` would also cut at form feeds and their kin."""
    return _LINE.findall(text)


def _piece_of_code(tail: Block, mark: str) -> Cut | None:
    """The first lines, or the first part of a line that is very long; the rest gets an opening line of its own."""
    lines = lines_of(tail.source)
    if any(_closes(line, mark) for line in lines[1:]):
        return None
    opening, body = lines[0], "".join(lines[1:])
    taken = "".join(lines[1 : _CODE_LINES + 1]) if len(lines) > _CODE_LINES + 1 else ""
    if len(taken or body) > _CHARACTERS:
        end = body.rfind("\n", 0, _CHARACTERS) + 1
        taken = body[: end or _CHARACTERS]
    if not taken:
        return None
    splits = not taken.endswith("\n")
    piece = replace(tail, source=opening + taken + ("\n" if splits else "") + mark, splits_line=splits)
    return piece, Block(opening + body[len(taken) :], continues=True)


def _piece_of_table(tail: Block, lines: list[str]) -> Cut | None:
    """The first rows; the rest keeps the two lines that make it a table."""
    if len(lines) <= _LINES + 3:
        return None
    head, rest = lines[:2], lines[_LINES + 2 :]
    piece = replace(tail, source="".join(lines[: _LINES + 2]), is_cut=True)
    return piece, Block("".join(head + rest), continues=True, is_cut=True)


def _piece_of_list(tail: Block, lines: list[str], tokens: list[Token]) -> Cut | None:
    """All items but the last, which can still grow."""
    items = [token.map[0] for token in tokens if token.type == "list_item_open" and token.level == 1 and token.map]
    if len(items) < 2:
        return None
    first = tail.number or int(tokens[0].attrGet("start") or 1)
    piece = replace(tail, source="".join(lines[: items[-1]]), number=first)
    return piece, Block("".join(lines[items[-1] :]), continues=True, number=first + len(items) - 1)


def _piece_of_text(tail: Block) -> Cut:
    """The first few thousand characters, up to a line's or at least a word's end."""
    source = tail.source
    half = _CHARACTERS // 2
    ends = (source.rfind(mark, half, _CHARACTERS) + 1 for mark in ("\n", ". ", " "))
    end = next((each for each in ends if each), _CHARACTERS)
    return replace(tail, source=source[:end]), Block(source[end:], continues=True)


def _closes(line: str, mark: str) -> bool:
    """Whether the line ends a code block that `mark` opened."""
    stripped = line.strip()
    return len(stripped) >= len(mark) and set(stripped) == {mark[0]}
