"""Turns the Markdown of one block into the HTML that a text document shows; raw HTML stays visible as text."""

import re
from dataclasses import dataclass
from html import escape

from markdown_it.token import Token

from app.chat.text.blocks import Block
from app.chat.text.markdown_parser import DISPLAYED, INLINE, MAX_NESTING, markdown_parser
from app.chat.typesetting.code_kinds import CodeText
from app.chat.typesetting.formulas import Latex
from app.system.plain_text import marked
from app.ui.theme import Colors

_MOST_COLUMNS = 96  # a table with more is shown as it was written
_TASK = re.compile(r"\[([ xX])\]\s+")


@dataclass(frozen=True, slots=True)
class Code:
    """What a code block holds, as it is copied, and the language it says it is in."""

    text: str
    language: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """The HTML of a block, and what a document has to know to place it.

    In the place of formula number n of `formulas` stands `placeholder(n)`, and in that of code in a language, number n
    of `codes`, `code_placeholder(n)`.
    """

    html: str
    is_heading: bool = False
    code: Code | None = None
    formulas: tuple[Latex, ...] = ()
    codes: tuple[CodeText, ...] = ()


def placeholder(number: int) -> str:
    """What stands in the place of a formula: a number between characters of the private use area."""
    return f"\ue000{number}\ue001"


def code_placeholder(number: int) -> str:
    """What stands in the place of code that can be coloured."""
    return f"\ue002{number}\ue003"


class BlockRenderer:
    """Renders blocks in the colours of one theme."""

    def __init__(self, colors: Colors) -> None:
        self.colors = colors
        self._parser = markdown_parser()
        self._parser.options["highlight"] = self._highlight
        self._codes: list[CodeText] = []  # of the block that is rendered

    def render(self, block: Block) -> Rendered:
        """The block as HTML."""
        tokens = self._parser.parse(block.source)
        columns = sum(token.type == "th_open" for token in tokens)
        if columns > _MOST_COLUMNS or any(token.level >= MAX_NESTING - 1 for token in tokens):
            return Rendered(f"<pre>{escape(block.source)}</pre>")
        if block.is_cut and block.continues:
            tokens = _without_head(tokens)
        formulas: list[Latex] = []
        columns = columns or _columns(tokens)
        _mark_tasks(tokens)
        for token in tokens:
            self._dress(token)
            if block.is_cut:
                _spread(token, columns)
            _take_formulas(token, formulas)
        first = tokens[0] if tokens else Token("", "", 0)
        if block.number is not None and first.type == "ordered_list_open":
            first.attrSet("start", block.number)
        self._codes = []
        html = str(self._parser.renderer.render(tokens, self._parser.options, {})).strip("\n")
        code = _code(first, block.splits_line)
        return Rendered(html, first.type == "heading_open", code, tuple(formulas), tuple(self._codes))

    def _dress(self, token: Token) -> None:
        """Give tables the borders that a text document knows, and all code one form."""
        match token.type:
            case "table_open":
                style = f"border-style: solid; border-color: {self.colors.border}; border-collapse: collapse"
                token.attrs |= {"border": 1, "cellspacing": 0, "cellpadding": 6, "style": style}
            case "th_open":
                token.attrSet("bgcolor", self.colors.raised)
            case "code_block":
                token.type = "fence"
            case "inline":
                for each in token.children or ():
                    if each.type == "code_inline":
                        each.content = marked(each.content)
                    elif each.type == "link_open":  # a title would be its tooltip, and hide where it leads
                        each.attrs.pop("title", None)

    def _highlight(self, code: str, language: str, _attributes: str) -> str:
        """A place for the code, which is coloured where it stands; what says no language stays as it is."""
        code = marked(code.rstrip("\n"))
        if not language or not code:
            return f"<pre>{escape(code)}</pre>"
        self._codes.append(CodeText(code, language))
        return f"<pre>{code_placeholder(len(self._codes) - 1)}</pre>"


def _code(token: Token, splits_line: bool) -> Code | None:
    if token.type != "fence":
        return None
    words = token.info.split()
    return Code(token.content.removesuffix("\n") if splits_line else token.content, words[0][:40] if words else "")


def _mark_tasks(tokens: list[Token]) -> None:
    """Give items that begin with `[ ]` or `[x]` a box in place of a bullet, by the class that a text document knows."""
    for item, paragraph, line in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if (item.type, paragraph.type) != ("list_item_open", "paragraph_open") or not line.children:
            continue
        first = line.children[0]
        if first.type == "text" and (task := _TASK.match(first.content)):
            item.attrSet("class", "unchecked" if task[1] == " " else "checked")
            first.content = first.content[task.end() :]


def _take_formulas(token: Token, formulas: list[Latex]) -> None:
    """Put placeholders where the formulas were."""
    for each in token.children or ([token] if token.type == DISPLAYED else []):
        if each.type in (INLINE, DISPLAYED):
            displayed = each.type == DISPLAYED or each.markup in ("$$", "\\[")
            formulas.append(Latex(each.content, each.markup, displayed))
            mark = placeholder(len(formulas) - 1)
            block = each.type == DISPLAYED
            each.type = "html_block" if block else "text"
            each.content = f'<p align="center">{mark}</p>' if block else mark


def _without_head(tokens: list[Token]) -> list[Token]:
    """The piece of a table that goes on, without the head that its parser needed."""
    kinds = [token.type for token in tokens]
    if "thead_close" not in kinds:
        return tokens
    return tokens[: kinds.index("thead_open")] + tokens[kinds.index("thead_close") + 1 :]


def _columns(tokens: list[Token]) -> int:
    kinds = [token.type for token in tokens]
    end = kinds.index("tr_close") if "tr_close" in kinds else 0
    return max(1, kinds[:end].count("td_open"))


def _spread(token: Token, columns: int) -> None:
    """The pieces of a long table have columns of one width, or they would not stand in line."""
    if token.type == "table_open":
        token.attrSet("width", "100%")
    elif token.type in ("th_open", "td_open"):
        token.attrSet("width", f"{100 // columns}%")
