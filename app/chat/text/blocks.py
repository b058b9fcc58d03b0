"""Cuts growing Markdown into blocks: those that can no longer change, and the open tail.

Only the tail is parsed and drawn again when text arrives, so the cost of a word does not grow with the answer. A block
that grows without end is cut into pieces, so that what is drawn again stays short. A JSON document that begins the
text, such as an answer that was held to JSON, is a block of code.
"""

import itertools
import re
from bisect import bisect_right
from dataclasses import dataclass, field, replace

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.chat.text.json_document import JsonEnd, begins_json
from app.chat.text.markdown_parser import BEGUN, structure_parser
from app.chat.typesetting.layout_cost import layout_cost, layout_cost_of_tokens, prefix_within

CODE_LINES = 40
CELLS = 144  # of a piece of a table
_LINES = 24  # rows of a table, lines of a list
_CHARACTERS = 2_500  # of code; without a place to cut at, a word is cut in two
_HEAVY = 3_500  # letters of plain text that take as long; then a block is cut where it can be
_FAR_TOO_HEAVY = 8_000  # then it is cut wherever a line ends, even if it looks different for it
_LOOKED_AT_FIRST = 40  # lines that are parsed to find the first place to cut at; if it is not there, all are
_LOOKED_AT = 12_000  # characters of them
_FENCE = re.compile(r"^ {0,3}(`{3,}(?![^\n]*`)|~{3,})")
_FENCE_WITHIN = re.compile(r"^([ >]*)(?:[-*+]|\d{1,9}[.)])? {0,4}(`{3,}|~{3,})(.*)$", re.DOTALL)
_INDENT = re.compile(r" {4}| {0,3}\t")  # of code
_GO_ON = (
    "paragraph_close",
    "bullet_list_close",
    "ordered_list_close",
    "blockquote_close",
)  # a line without a mark continues them
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_JSON_FENCE, _FENCE_END = "````json\n", "\n````"  # around JSON that has none; three could stand in it


@dataclass(frozen=True, slots=True)
class Block:
    """The Markdown of one block, or a piece of a long one.

    `continues` says that it goes on where the block before it was cut, and `joint` what stands between the two where
    they are copied. `number` is that of the first item of a list that goes on. `is_cut` says of a table that it has,
    or will have, other pieces; `splits_line` says of a piece of code that its last line goes on in the next one.
    `begin` is where it begins in the text, and `repeated` how many of its first characters stood there before it.
    """

    source: str
    continues: bool = False
    number: int | None = None
    is_cut: bool = False
    splits_line: bool = False
    joint: str = "\n\n"
    begin: int = field(default=0, compare=False)
    repeated: int = field(default=0, compare=False)


Cut = tuple[Block, Block]  # what is closed, and what stays open behind it


def take_piece(tail: Block, parser: MarkdownIt) -> Cut | None:
    """The beginning of an open block that has grown long, and the rest; None while it is short enough."""
    cut = _cut(tail, parser)
    if cut is None:
        return None
    piece, rest = cut
    taken = len(tail.source) - tail.repeated - (len(rest.source) - rest.repeated)
    return piece, replace(rest, begin=tail.begin + taken)


def code_of(block: Block) -> str | None:
    """The code of a block, or of a piece of one; None if it is something else."""
    opening = _FENCE.match(block.source)
    if opening is None:
        is_indented = block.source.startswith(("    ", "\t"))
        return re.sub(r"(?m)^(?: {4}|\t)", "", block.source.rstrip()) + "\n" if is_indented else None
    lines = lines_of(block.source.rstrip("\n") + "\n")[1:]
    if lines and _closes(lines[-1], opening[1]):
        lines.pop()
    indent = opening.start(1)
    if indent:
        lines = [re.sub(f"^ {{0,{indent}}}", "", line) for line in lines]
    code = "".join(lines)
    return code.removesuffix("\n") if block.splits_line else code


def lines_of(text: str) -> list[str]:
    """The lines as the parser counts them; `str.splitlines` would also cut at form feeds and their kin."""
    return _LINE.findall(text)


def _cut(tail: Block, parser: MarkdownIt) -> Cut | None:
    opening = _FENCE.match(tail.source)
    if opening is not None and "\n" in tail.source:
        return _piece_of_code(tail, opening[1])
    lines = lines_of(tail.source)
    if len(lines) <= _LINES and layout_cost(tail.source) <= _HEAVY:
        return None
    for count in (_LOOKED_AT_FIRST, len(lines)):
        tokens = parser.parse(_first_lines(lines[: count + 1]))
        cut = _cut_where_it_fits(tail, lines, tokens)
        if cut is not None:
            return cut
        if count >= len(lines):
            break
    too_long = layout_cost_of_tokens(tokens) > _FAR_TOO_HEAVY or len(tail.source) > _LOOKED_AT
    return _piece_of_lines(tail, tokens) if too_long else None


def _cut_where_it_fits(tail: Block, lines: list[str], tokens: list[Token]) -> Cut | None:
    is_heavy = layout_cost(tail.source) > _HEAVY
    match tokens[0].type if tokens else "":
        case "table_open":
            return _piece_of_table(tail, lines, tokens)
        case "ordered_list_open" | "bullet_list_open":
            return _piece_of_list(tail, lines, tokens)
        case "blockquote_open" if is_heavy:
            return _piece_of_quote(tail, lines, tokens)
        case "paragraph_open" if layout_cost("".join(lines[: (tokens[0].map or [0, 0])[1]])) > _HEAVY:
            return _piece_of_text(tail)  # never the formula that has begun behind it
        case "" if is_heavy:  # blank lines
            return _piece_of_lines(tail, tokens)
    return None


def _first_lines(lines: list[str]) -> str:
    """As many complete lines as are looked at; the beginning of the first one, if it is endless."""
    length, count = 0, 0
    for line in lines[:-1]:
        length += len(line)
        if length > _LOOKED_AT:
            break
        count += 1
    return "".join(lines[:count]) or lines[0][:_LOOKED_AT]


def _piece_of_code(tail: Block, mark: str) -> Cut | None:
    """The first lines, or the first part of a line that is very long; the rest gets an opening line of its own."""
    lines = lines_of(tail.source)
    if any(_closes(line, mark) for line in lines[1:]):
        return None
    opening, body = lines[0], "".join(lines[1:])
    taken = "".join(lines[1 : CODE_LINES + 1]) if len(lines) > CODE_LINES + 1 else ""
    if len(taken or body) > _CHARACTERS:
        end = body.rfind("\n", 0, _CHARACTERS) + 1
        taken = body[: end or _CHARACTERS]
    if not taken:
        return None
    splits = not taken.endswith("\n")
    piece = replace(tail, source=opening + taken + ("\n" if splits else "") + mark, splits_line=splits)
    rest = opening + body[len(taken) :]
    return piece, Block(rest, continues=True, joint="" if splits else "\n", repeated=len(opening))


def _piece_of_table(tail: Block, lines: list[str], tokens: list[Token]) -> Cut | None:
    """The first rows; the rest keeps the two lines that make it a table."""
    columns = sum(token.type == "th_open" for token in tokens)
    rows = max(1, min(_LINES, CELLS // max(1, columns)))
    if len(lines) <= rows + 3:
        return None
    head, rest = lines[:2], lines[rows + 2 :]
    piece = replace(tail, source="".join(lines[: rows + 2]), is_cut=True)
    repeated = sum(map(len, head))
    return piece, Block("".join(head + rest), continues=True, is_cut=True, joint="\n", repeated=repeated)


def _piece_of_list(tail: Block, lines: list[str], tokens: list[Token]) -> Cut | None:
    """All items but the last, which can still grow."""
    items = [token.map[0] for token in tokens if token.type == "list_item_open" and token.level == 1 and token.map]
    if len(items) < 2:
        return None
    start = tokens[0].attrGet("start")
    first = tail.number if tail.number is not None else int(1 if start is None else start)
    count = min(len(items) - 1, _LINES)
    piece = replace(tail, source="".join(lines[: items[count]]), number=first)
    return piece, Block("".join(lines[items[count] :]), continues=True, number=first + count, joint="\n")


def _piece_of_quote(tail: Block, lines: list[str], tokens: list[Token]) -> Cut | None:
    """The first paragraphs of a quotation."""
    starts = [token.map[0] for token in tokens if token.level == 1 and token.nesting >= 0 and token.map]
    good = [each for each in starts[1:] if layout_cost("".join(lines[:each])) <= _HEAVY]
    if not good or good[-1] <= 0:
        return None
    rest = Block("".join(lines[good[-1] :]), continues=True, joint="\n")
    return replace(tail, source="".join(lines[: good[-1]])), rest


def _piece_of_text(tail: Block) -> Cut:
    """As much as is not too heavy, up to a line's or at least a word's end."""
    source = tail.source
    most = prefix_within(source, _HEAVY)
    ends = (source.rfind(mark, most // 2, most) + 1 for mark in ("\n", ". ", " "))
    end = next((each for each in ends if each), most)
    joint = next((each for each in source[end - 1 : end + 1] if each in " \n"), "")
    return replace(tail, source=source[:end]), Block(source[end:], continues=True, joint=joint)


def _piece_of_lines(tail: Block, tokens: list[Token]) -> Cut:
    """As many lines as are not too heavy; code that they cut in two goes on as code."""
    source = tail.source
    most = prefix_within(source, _HEAVY)
    end = source.rfind("\n", 0, most) + 1
    if not end:
        return _piece_of_text(tail)
    line = source.count("\n", 0, end)
    fence = next((each.map[0] for each in tokens if each.type == "fence" and each.map and _holds(each.map, line)), -1)
    opening = _FENCE_WITHIN.match(lines_of(source)[fence]) if fence >= 0 else None
    again = "" if opening is None or len(opening[1]) > 3 else f"{opening[1]}{opening[2]}{opening[3]}"
    return (
        replace(tail, source=source[:end]),
        Block(again + source[end:], continues=True, joint="\n", repeated=len(again)),
    )


def _holds(place: list[int], line: int) -> bool:
    """Whether a cut before this line goes through the code between the lines of `place`."""
    return place[0] < line < place[1] - 1


def _closes(line: str, mark: str) -> bool:
    """Whether the line ends a code block that `mark` opened; a mark behind a larger indent is code."""
    stripped = line.strip()
    return len(stripped) >= len(mark) and set(stripped) == {mark[0]} and _INDENT.match(line) is None


class BlockStream:
    """Takes text in pieces of any size and gives back each block once, as soon as nothing can change it."""

    def __init__(self) -> None:
        self._parser = structure_parser()
        self._tail = Block("")
        self._dropped: list[int] = []  # places of the carriage returns, in the text without them
        self._json: JsonEnd | None = JsonEnd()  # None where the text is no JSON document, or has gone on behind it

    @property
    def tail(self) -> Block:
        """What is still open; its source can be empty."""
        return self._placed(self._tail)

    @property
    def open_blocks(self) -> list[Block]:
        """The tail as it looks now: mostly one block, two while the first line of the next one is being written."""
        lines = lines_of(self._tail.source)
        starts = _block_starts(self._parser.parse(self._tail.source))
        cuts = [0, *starts[1:], len(lines)]
        blocks: list[Block] = []
        tail = self._tail
        for start, end in itertools.pairwise(cuts):
            source = "".join(lines[start:end])
            blocks.append(replace(tail, source=source))
            tail = Block("", begin=_behind(blocks[-1]))
        return [self._placed(block) for block in blocks if block.source.strip()]

    def feed(self, text: str) -> list[Block]:
        """Add text; returns the blocks that it closed.

        A block is closed when another one has begun on a *complete* line after it: half a line can still turn out
        to continue what stands above it.
        """
        added = self._without_returns(text)
        self._open_with(self._tail.source + added)
        closed = self._take_json(added)
        if self._json is None and "\n" in text:
            closed += self._take_closed()
        while (taken := take_piece(self._tail, self._parser)) is not None:
            closed.append(taken[0])
            self._tail = taken[1]
        return [self._placed(block) for block in closed]

    def close(self) -> list[Block]:
        """The text has ended: returns what was open."""
        rest, self._tail = self.tail, Block("", begin=_behind(self._tail))
        return [rest] if rest.source.strip() else []

    def _open_with(self, source: str) -> None:
        begun = source.lstrip("\n")
        self._tail = replace(self._tail, source=begun, begin=self._tail.begin + len(source) - len(begun))

    def _take_json(self, added: str) -> list[Block]:
        """Put a fence around a JSON document that begins the text; what follows it is Markdown."""
        if self._json is None:
            return []
        if not self._tail.repeated:  # no document has begun yet
            begins = begins_json(self._tail.source)
            if not begins:
                self._json = None if begins is False else self._json
                return []
            added = self._tail.source
            self._tail = replace(self._tail, source=_JSON_FENCE + added, repeated=len(_JSON_FENCE))
        end = self._json.feed(added)
        if end is None:
            return []
        self._json = None
        source, rest = self._tail.source, added[end:]
        closed = replace(self._tail, source=source.removesuffix(rest) + _FENCE_END)
        self._tail = Block("", begin=_behind(self._tail) - len(rest))
        self._open_with(rest)
        return [closed]

    def _without_returns(self, text: str) -> str:
        begin = _behind(self._tail)
        places = (each.start() for each in re.finditer("\r", text))
        self._dropped += (begin + place - number for number, place in enumerate(places))
        return text.replace("\r", "")

    def _placed(self, block: Block) -> Block:
        """The block with its place in the text as it came."""
        return replace(block, begin=block.begin + bisect_right(self._dropped, block.begin))

    def _take_closed(self) -> list[Block]:
        source = self._tail.source
        complete = source.rfind("\n") + 1
        lines = lines_of(source[:complete])
        tokens = self._parser.parse(source[:complete])
        starts = _block_starts(tokens)
        if len(tokens) > 1 and tokens[-1].type == BEGUN and tokens[-2].type in _GO_ON:
            starts.pop()  # if it proves to be no formula, its lines belong to the block above
        closed: list[Block] = []
        for start, end in itertools.pairwise([0, *starts[1:]]):
            closed.append(replace(self._tail, source="".join(lines[start:end])))
            self._tail = Block("", begin=_behind(closed[-1]))
        if closed:
            self._tail = replace(self._tail, source="".join(lines[starts[-1] :]) + source[complete:])
        return closed


def _behind(block: Block) -> int:
    """Where the text goes on behind a block that was not cut."""
    return block.begin + len(block.source) - block.repeated


def _block_starts(tokens: list[Token]) -> list[int]:
    """The line each top-level block begins on."""
    return [token.map[0] for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
