"""Which of transformers' modules do what the loops here do: those whose `forward` is one of a few, word for word.

Most families of models have norms, networks of two gates and attention with the very same code, copied from each other.
Whatever differs from that in a word is left to the library.
"""

import hashlib
import inspect
import io
import tokenize
from collections.abc import Callable
from functools import cache
from typing import Any

DOCSTRING = '"""'
IGNORED = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})


@cache
def digest_of(function: Callable[..., Any]) -> str:
    """What tells apart the code of functions, whatever their names, annotations, comments and docstrings.

    "" for no source.
    """
    try:
        source = inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError):  # frozen without its sources, or no function
        return ""
    words = [
        token.string for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type not in IGNORED
    ]
    return hashlib.sha256(" ".join(_body(words)).encode()).hexdigest()[:16]


def _body(words: list[str]) -> list[str]:
    """Behind the colon outside of all brackets: without decorators, the line of `def`, and a docstring."""
    depth = 0
    for at in range(words.index("def"), len(words)):
        depth += (words[at] in "([{") - (words[at] in ")]}")
        if words[at] == ":" and not depth:
            body = words[at + 1 :]
            return body[1:] if body and body[0].endswith(DOCSTRING) else body
    return words
