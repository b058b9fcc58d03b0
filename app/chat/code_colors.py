"""Colours code: as few spans as will do, since each is work for the text's layout."""

from functools import lru_cache
from html import escape

from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import get_all_lexers, get_lexer_by_name  # type: ignore[import-untyped]
from pygments.styles import get_style_by_name  # type: ignore[import-untyped]
from pygments.token import _TokenType  # type: ignore[import-untyped]

_LONGEST_COLOURED = 6_000  # characters; what is longer comes from nobody's editor
_MOST_SPANS = 500  # nor what changes its colour so often in a few lines


class CodeColors:
    """Colours code in a style of pygments."""

    def __init__(self, style: str) -> None:
        self._style = get_style_by_name(style)
        self._looks: dict[_TokenType, str] = {}

    def html(self, code: str, language: str) -> str:
        """The code as HTML; plain where its language is not known."""
        lexer = _lexer(language) if len(code) <= _LONGEST_COLOURED else None
        spans = self._spans(code, lexer) if lexer is not None else []
        if not spans or len(spans) > _MOST_SPANS:
            return escape(code)
        return "".join(f'<span style="{look}">{escape(text)}</span>' if look else escape(text) for look, text in spans)

    def _spans(self, code: str, lexer: Lexer) -> list[tuple[str, str]]:
        """Stretches of one look; blanks take that of what stands before them."""
        spans: list[tuple[str, str]] = []
        for kind, text in lexer.get_tokens(code):
            look = self._look(kind)
            if spans and (look == spans[-1][0] or text.isspace()):
                spans[-1] = (spans[-1][0], spans[-1][1] + text)
            else:
                spans.append((look, text))
        return spans

    def _look(self, kind: _TokenType) -> str:
        if kind not in self._looks:
            style = self._style.style_for_token(kind)
            parts = [
                f"color: #{style['color']}" if style["color"] else "",
                "font-weight: bold" if style["bold"] else "",
                "font-style: italic" if style["italic"] else "",
            ]
            self._looks[kind] = "; ".join(part for part in parts if part)
        return self._looks[kind]


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    """The lexer of a language. Plugins are not looked for: that would search through all that is installed."""
    if language.lower() not in _names():
        return None
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(alias.lower() for _, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases)
