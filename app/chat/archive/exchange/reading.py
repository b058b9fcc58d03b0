"""What is found in files: a conversation and what is told of it, or why there is none."""

from typing import NamedTuple

from app.chat.history.conversation import Conversation


class ExchangeError(Exception):
    """A file that holds no conversation; says what was expected."""


class About(NamedTuple):
    """What is told of a chat besides its messages; times in seconds since 1970, 0 for unknown.

    `name`: what it is called by where it comes from, and nothing else is; empty for unknown.
    """

    created: float = 0.0
    updated: float = 0.0
    is_pinned: bool = False
    folder: str = ""
    name: str = ""


class ReadChat(NamedTuple):
    """What was found at a place of a file: a title and a conversation, or why there is none.

    `is_empty`: nothing has been said in it, and there is no reason. `share` of the file, from 0 to 1, has been read.
    `is_whole`: it has all that belongs to it, its settings too.
    """

    title: str = ""
    conversation: Conversation | None = None
    reason: str = ""
    share: float = 1.0
    is_empty: bool = False
    about: About = About()
    is_whole: bool = False
