"""Says which part of a code is what: a lexer can take seconds or for ever, so this is for a process of its own."""

from functools import lru_cache

from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import get_all_lexers, get_lexer_by_name  # type: ignore[import-untyped]

LONGEST = 6_000  # characters; what is longer is shown without colours

Runs = list[tuple[int, str]]
"""The length of each stretch of code, and the name of its kind of token."""


def token_runs(code: str, language: str) -> Runs:
    """The stretches of a code from its begin to its end; none where the language is not known or the code too long."""
    lexer = _lexer(language) if len(code) <= LONGEST else None
    runs: Runs = []
    for kind, text in lexer.get_tokens(code) if lexer is not None else ():
        if runs and runs[-1][1] == str(kind):
            runs[-1] = (runs[-1][0] + len(text), runs[-1][1])
        elif text:
            runs.append((len(text), str(kind)))
    return runs if sum(length for length, _ in runs) == len(code) else []


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    """The lexer of a language. Plugins are not looked for: that would search through all that is installed."""
    if language.lower() not in _names():
        return None
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(alias.lower() for _, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases)
