"""How much of each kind one request may hold; the bytes of all of it are bounded before it is read."""

from typing import Annotated

from pydantic import StringConstraints

MOST_TURNS = 1 << 14  # items or messages
MOST_PARTS = 1 << 12  # of one message
MOST_TOOLS = 1024
MOST_TOKENS = 1 << 31

Text = Annotated[str, StringConstraints(max_length=1 << 24)]
Name = Annotated[str, StringConstraints(max_length=256)]
GivenName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
