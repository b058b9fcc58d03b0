"""The Markdown that is understood: CommonMark with tables, strikethrough and formulas, within bounds.

Formulas are `$x$` and `\\(x\\)` within a line, `$$x$$` and `\\[x\\]` standing alone.
"""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.blockquote import blockquote
from markdown_it.rules_inline import StateInline

MAX_NESTING = 60  # a list within a list takes two
_MOST_QUOTES = 10  # within each other; for every line the parser needs the square of it
_MOST_BRACKETS = 150  # in one paragraph; each is a search for its partner through all others

INLINE, DISPLAYED = "formula", "formula_displayed"
_LONGEST_FORMULA = 2_000
_MARKS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)", "$": "$"}
_MATHS = re.compile(r"[\\^_={}+*/<>|]")


class _MarkdownParser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802  # the parser's own name
        """Only addresses of the web are links; one of any other kind is text, as it was written."""
        return url.lower().startswith(("http://", "https://"))


def markdown_parser() -> MarkdownIt:
    """CommonMark with tables, strikethrough and maths. HTML is text; an image is the link it is made from.

    The parser drops what is nested deeper than `MAX_NESTING`: a renderer has to check for that.
    """
    parser = _MarkdownParser("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    parser.block.ruler.at("blockquote", _quote, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.inline.ruler.before("link", "too_many_brackets", _too_many_brackets)
    return parser.enable(["table", "strikethrough"]).disable("image").use(math_syntax)


def structure_parser() -> MarkdownIt:
    """The same without parsing the text inside blocks: it finds only which blocks there are."""
    parser = markdown_parser()
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
    parser.block.ruler.before(
        "fence", DISPLAYED, _displayed_formula, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )


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


def _displayed_formula(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """A formula that begins a line and whose end ends one, with no blank line between."""
    if state.sCount[line] - state.blkIndent >= 4:
        return False
    begin = state.bMarks[line] + state.tShift[line]
    mark = state.src[begin : begin + 2]
    if mark not in ("$$", "\\["):
        return False
    end, here = -1, line
    while here < last and not state.isEmpty(here) and state.eMarks[here] - begin <= _LONGEST_FORMULA:
        stop = state.eMarks[here]
        written = state.src[begin + 2 : stop].rstrip()
        if written.endswith(_MARKS[mark]):
            end = begin + 2 + len(written) - 2
            break
        here += 1
    content = state.src[begin + 2 : end].strip() if end > 0 else ""
    if not content or _MARKS[mark] in content:
        return False
    if not silent:
        token = state.push(DISPLAYED, "", 0)
        token.content, token.markup, token.block, token.map = content, mark, True, [line, here + 1]
        state.line = here + 1
    return True


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
