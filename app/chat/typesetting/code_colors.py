"""The colours of code: as few stretches as will do, since each is work for the text's layout."""

from collections.abc import Iterable
from dataclasses import dataclass

from pygments.styles import get_style_by_name  # type: ignore[import-untyped]
from pygments.token import string_to_tokentype  # type: ignore[import-untyped]

_MOST_STRETCHES = 500  # what changes its colour more often in a few lines stays without


@dataclass(frozen=True, slots=True)
class CodeLook:
    """How a kind of token looks; `color` is empty where it is that of all text."""

    color: str = ""
    is_bold: bool = False
    is_italic: bool = False


class CodeColors:
    """Gives the kinds of tokens the looks of a style of pygments."""

    def __init__(self, style: str) -> None:
        self._style = get_style_by_name(style)
        self._looks: dict[str, CodeLook] = {}

    def stretches(self, code: str, runs: Iterable[tuple[int, str]]) -> list[tuple[CodeLook, int]]:
        """Stretches of one look and their lengths, as far as the runs go; blanks take that of what stands before."""
        found: list[tuple[CodeLook, int]] = []
        place = 0
        for length, kind in runs:
            look = self._look(kind)
            if found and (look == found[-1][0] or code[place : place + length].isspace()):
                found[-1] = (found[-1][0], found[-1][1] + length)
            else:
                found.append((look, length))
            place += length
        return found if len(found) <= _MOST_STRETCHES else [(CodeLook(), place)]

    def _look(self, kind: str) -> CodeLook:
        if kind not in self._looks:
            token = string_to_tokentype(kind.removeprefix("Token").removeprefix("."))
            while token not in self._style._styles and token.parent is not None:  # a kind that a lexer has made up
                token = token.parent
            style = self._style.style_for_token(token)
            color = f"#{style['color']}" if style["color"] else ""
            self._looks[kind] = CodeLook(color, bool(style["bold"]), bool(style["italic"]))
        return self._looks[kind]
