"""How much work a text is for whoever shows it, in letters of plain text that would take as long."""

import re

from markdown_it.token import Token

_MARKS = "*_`[]~\\&<|"
_PER_MARK = 10
_PER_DOLLAR = 30  # two of them are a formula
_PER_LINE = 40
_PER_ODD_LETTER = 12
_PER_TOKEN = 45  # of the parser: an item of a list takes three of them
_PER_LINE_OF_CODE = 20

# Letters that are written from right to left, or that are seen only by what they do to others, cost a layout of
# their own whenever they meet another kind.
_ODD = re.compile(
    r"[\u0300-\u036f\u0590-\u08ff\u200b-\u200f\u202a-\u202e\u2060-\u206f\ue000-\uf8ff\ufb1d-\ufeff\U00010000-\U0010ffff]"
)


def burden(text: str) -> int:
    """That of Markdown that is not parsed yet."""
    marks = _PER_MARK * sum(map(text.count, _MARKS)) + _PER_DOLLAR * text.count("$")
    odd = 0 if text.isascii() else len(_ODD.findall(text))
    return len(text) + marks + _PER_LINE * text.count("\n") + _PER_ODD_LETTER * odd


def burden_of_tokens(tokens: list[Token]) -> int:
    """That of Markdown that is parsed."""
    total = 0
    for token in tokens:
        total += _PER_TOKEN * (token.nesting >= 0)
        if token.type in ("fence", "code_block"):
            total += len(token.content) + _PER_LINE_OF_CODE * token.content.count("\n")
        elif token.type == "inline":
            total += burden(token.content)
    return total


def prefix_within(text: str, most: int) -> int:
    """How many of the first characters are no heavier than `most`; at least one, and near enough the most."""
    length = min(len(text), most)
    while length > 1 and (heavy := burden(text[:length])) > most:
        length = max(1, min(length - 1, length * most // heavy))
    return length
