"""Pictures in a conversation that is written out: where they stand, and which tokens of the prompt are theirs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from engine.errors import InputError
from engine.picture_tokens import WrittenPicture
from engine.protocol.messages import ChatMessage
from engine.protocol.sentences import say

ANOTHER = say("Leave the pictures out, or choose another model.")


def marked(message: ChatMessage, mark: str) -> ChatMessage:
    """The message with a character in its text for every picture, and without the pictures themselves."""
    if not message.pictures:
        return message
    parts, begin = [], 0
    for picture in message.pictures:
        at = min(max(picture.at, begin), len(message.content))
        parts += [message.content[begin:at], mark]
        begin = at
    return replace(message, content="".join([*parts, message.content[begin:]]), pictures=())


def in_parts(turn: dict[str, Any], mark: str, is_always: bool = False) -> dict[str, Any]:
    """A turn as templates of models that read pictures take it, if it has any: its content in parts.

    `mark`: see `marked`; empty where the conversation has none. `is_always`: turns of text alone, too.
    """
    content = turn["content"]
    if not isinstance(content, str) or not (is_always or (mark and mark in content)):
        return turn
    parts: list[dict[str, str]] = []
    for index, text in enumerate(content.split(mark) if mark else [content]):
        if index:
            parts.append({"type": "image"})
        if text:
            parts.append({"type": "text", "text": text})
    return turn | {"content": parts}


def with_pictures(text: str, pictures: Sequence[WrittenPicture]) -> str:
    """What a template wrote, with the text of every picture in place of its mark.

    Raises `InputError` where the template did not write as many marks as there are pictures.
    """
    if not pictures:
        return text
    before, *behind = text.split(pictures[0].mark)
    if len(behind) != len(pictures):
        raise InputError(say("The model's chat template does not show the pictures of this conversation."), ANOTHER)
    return before + "".join(picture.text + text for picture, text in zip(pictures, behind, strict=True))


def with_rows(tokens: Iterable[int], pictures: Sequence[WrittenPicture]) -> list[int]:
    """The tokens of such a text, with the rows of all pictures; raises `InputError` where the text has not all."""
    if not pictures:
        return list(tokens)
    rows = (row for picture in pictures for row in picture.rows)
    found = [_row(rows) if token == pictures[0].token else token for token in tokens]
    if next(rows, None) is not None:
        raise _miscounted()
    return found


def _row(rows: Iterator[int]) -> int:
    row = next(rows, None)
    if row is None:
        raise _miscounted()
    return row


def _miscounted() -> InputError:
    return InputError(say("The pictures of this conversation cannot be told apart in its tokens."), ANOTHER)
