"""How much of each kind one request may hold; the bytes of all of it are bounded before it is read.

Long lists fail fast: an error for each of a million wrong elements would take hundreds of times the request's memory.
"""

from typing import Annotated

from pydantic import BeforeValidator, StringConstraints

MOST_TURNS = 1 << 14  # items or messages
MOST_PARTS = 1 << 12  # of one message
MOST_TOOLS = 1024
MOST_TOKENS = 1 << 31
MOST_TEXT = 12 << 20  # characters of a conversation: 8 MiB of JSON may be written again with more spaces

Text = Annotated[str, StringConstraints(max_length=1 << 24)]
Name = Annotated[str, StringConstraints(max_length=256)]
GivenName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
# Of tools that are offered. Calls are read again out of text, where names end at spaces, brackets and quotes.
ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:/-]{1,256}$")]


def at_most(entries: int) -> BeforeValidator:
    """Refuses a longer dict before its entries are looked at, because every wrong one is an error of its own."""

    def check(value: object) -> object:
        if isinstance(value, dict) and len(value) > entries:
            raise ValueError(f"Dictionary should have at most {entries} items")
        return value

    return BeforeValidator(check)
