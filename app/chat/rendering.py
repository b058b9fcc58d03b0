"""Turns the Markdown of one block into the HTML that a text document shows; raw HTML stays visible as text."""

from dataclasses import dataclass
from functools import lru_cache
from html import escape

from markdown_it.token import Token
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters.html import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

from app.chat.blocks import MAX_NESTING, Block, markdown_parser
from app.theme import Colors


@dataclass(frozen=True, slots=True)
class Rendered:
    """The HTML of a block, and what a document has to know to place it."""

    html: str
    is_code: bool
    is_heading: bool


class BlockRenderer:
    """Renders blocks in the colours of one theme."""

    def __init__(self, colors: Colors) -> None:
        self.colors = colors
        self._parser = markdown_parser()
        self._parser.options["highlight"] = self._highlight
        self._formatter = HtmlFormatter(nowrap=True, noclasses=True, style=colors.code_style)

    def render(self, block: Block) -> Rendered:
        """The block as HTML."""
        tokens = self._parser.parse(block.source)
        if any(token.level >= MAX_NESTING - 1 for token in tokens):
            return Rendered(f"<pre>{escape(block.source)}</pre>", is_code=False, is_heading=False)
        for token in tokens:
            self._dress(token)
        html = self._parser.renderer.render(tokens, self._parser.options, {})
        first = tokens[0].type if tokens else ""
        return Rendered(str(html).strip("\n"), is_code=first == "fence", is_heading=first == "heading_open")

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

    def _highlight(self, code: str, language: str, _attributes: str) -> str:
        """The code with colours; a language that pygments does not know stays plain."""
        code = code.rstrip("\n")
        lexer = _lexer(language)
        return f"<pre>{escape(code) if lexer is None else highlight(code, lexer, self._formatter)}</pre>"


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    """The lexer of a language; looking in vain is slow, and would be repeated while the code grows."""
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
