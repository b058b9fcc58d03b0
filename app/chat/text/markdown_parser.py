"""The Markdown that is understood: CommonMark with tables, strikethrough and formulas, within bounds.

Formulas are `$x$` and `\\(x\\)` within a line, `$$x$$` and `\\[x\\]` standing alone.
"""

import re
from bisect import bisect_left
from functools import partial

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.blockquote import blockquote
from markdown_it.rules_inline import StateInline

MAX_NESTING = 60  # a list within a list takes two
_MOST_QUOTES = 10  # within each other; for every line the parser needs the square of it
_MOST_BRACKETS = 150  # in one paragraph; each is a search for its partner through all others

INLINE, DISPLAYED = "formula", "formula_displayed"
BEGUN = "formula_begun"  # a displayed one that reaches the end of the text; only the structure parser tells of it
_LONGEST_FORMULA = 2_000
_MARKS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)", "$": "$"}
_ALTERNATIVES = ["paragraph", "reference", "blockquote", "list"]  # that a displayed formula ends
_MATHS = re.compile(r"[\\^_={}+*/<>|]")


class _MarkdownParser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802  # the parser's own name
        """Only addresses of the web are links; one of any other kind is text, as it was written."""
        return url.lower().startswith(("http://", "https://"))


def markdown_parser() -> MarkdownIt:
    """CommonMark with tables, strikethrough and maths. HTML is text; an image is the link it is made from.

    The parser drops what is nested deeper than `MAX_NESTING`: a renderer has to check for that. The address of a
    reference is text: blocks are parsed by themselves, and would not find it in another one.
    """
    parser = _MarkdownParser("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    parser.block.ruler.at("blockquote", _quote, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.inline.ruler.before("link", "too_many_brackets", _too_many_brackets)
    return parser.enable(["table", "strikethrough"]).disable(["image", "reference"]).use(math_syntax)


def structure_parser() -> MarkdownIt:
    """The same without parsing the text inside blocks: it finds only which blocks there are.

    The lines of a formula whose closing mark has not come yet are one block, of the kind `BEGUN`.
    """
    parser = markdown_parser()
    parser.block.ruler.at(DISPLAYED, partial(_displayed_formula, is_growing=True), {"alt": _ALTERNATIVES})
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _quote(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """A quotation, unless it stands within too many others: then its mark is text."""
    return state.level < _MOST_QUOTES and blockquote(state, line, last, silent)


def _too_many_brackets(state: StateInline, silent: bool) -> bool:
    """Treat opening brackets as text where there are too many of them."""
    if state.src[state.pos] != "[" or state.src.count("[") <= _MOST_BRACKETS:
        return False
    if not silent:
        state.pending += "["
    state.pos += 1
    return True


def math_syntax(parser: MarkdownIt) -> None:
    """Teach the parser both kinds; a formula is a token whose `content` is its LaTeX and `markup` its mark."""
    parser.inline.ruler.before("escape", INLINE, _inline_formula)
    parser.block.ruler.before("fence", DISPLAYED, _displayed_formula, {"alt": _ALTERNATIVES})


def _inline_formula(state: StateInline, silent: bool) -> bool:
    mark = _mark_at(state.src, state.pos)
    if not mark:
        return False
    begin = state.pos + len(mark)
    end = _end_of(state.src, begin, mark)
    if end < 0 or end > state.posMax:
        return False
    if not silent:
        token = state.push(INLINE, "", 0)
        token.content, token.markup = state.src[begin:end], mark
    state.pos = end + len(_MARKS[mark])
    return True


def _displayed_formula(state: StateBlock, line: int, last: int, silent: bool, is_growing: bool = False) -> bool:
    """A formula that begins a line and whose end ends one, with no blank line between."""
    if state.sCount[line] - state.blkIndent >= 4:
        return False
    begin = state.bMarks[line] + state.tShift[line]
    mark = state.src[begin : begin + 2]
    if mark not in ("$$", "\\["):
        return False
    end = _end_of_displayed(state.src, begin, mark)
    is_begun = is_growing and end < 0 and last == len(state.eMarks) - 1 and (silent or state.level == 0)
    here = bisect_left(state.eMarks, end + 2, line, last) if end >= 0 else last - 1
    if not (end >= 0 or is_begun) or here == last or state.eMarks[here] - begin > _LONGEST_FORMULA:
        return False
    stop = state.eMarks[here]
    content = state.src[begin + 2 : stop if is_begun else end].strip()
    is_closed = content and _MARKS[mark] not in content and not state.src[end + 2 : stop].strip()
    if not (is_closed or is_begun) or any(map(state.isEmpty, range(line, here + 1))):
        return False
    if not silent:
        token = state.push(BEGUN if is_begun else DISPLAYED, "", 0)
        token.content, token.markup, token.block, token.map = content, mark, True, [line, here + 1]
        state.line = here + 1
    return True


def _end_of_displayed(text: str, begin: int, mark: str) -> int:
    """Where the closing mark of a displayed formula stands; -1 if there is none near enough."""
    closing = _MARKS[mark]
    end = text.find(closing, begin + 2, begin + _LONGEST_FORMULA)
    while end >= 0 and text.startswith(closing, end + 1):
        end += 1
    return end


def _mark_at(text: str, place: int) -> str:
    return next((mark for mark in _MARKS if text.startswith(mark, place)), "")


def _end_of(text: str, begin: int, mark: str) -> int:
    """Where the formula ends; -1 if it is none. A dollar is often just money."""
    closing = _MARKS[mark]
    end = text.find(closing, begin, begin + _LONGEST_FORMULA)
    while end > 0 and mark == "$" and text[end - 1] == "\\":
        end = text.find(closing, end + 1, begin + _LONGEST_FORMULA)
    content = text[begin:end] if end > begin else ""
    if not content.strip() or "\n\n" in content:
        return -1
    return end if mark != "$" or _is_maths(content, text[end + 1 : end + 2]) else -1


def _is_maths(content: str, behind: str) -> bool:
    """Between single dollars: no space inside them, no digit behind, and an amount of money needs more than words."""
    if content[0].isspace() or content[-1].isspace() or behind.isdigit():
        return False
    return not content[0].isdigit() or " " not in content or _MATHS.search(content) is not None
