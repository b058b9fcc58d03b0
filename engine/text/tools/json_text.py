"""JSON read one character at a time: strings whole, other values copied as they come."""

import json

from engine.text.tools.character_reader import CharacterReader, Malformed, Reading, Write

CLOSED_BY = {"{": "}", "[": "]"}
# What stands in JSON outside of its strings; anything else is the end of what is well formed.
PLAIN = frozenset(" \t\r\n,:+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")


def read_string(characters: CharacterReader) -> Reading[str]:
    """What a string says whose first quote has been taken."""
    raw: list[str] = []
    yield from copy_string(characters, raw.append)
    try:
        text = str(json.loads('"' + "".join(raw)))
        text.encode()  # half a surrogate pair is no text
    except ValueError:  # such as \x
        raise Malformed from None
    return text


def copy_string(characters: CharacterReader, write: Write) -> Reading[None]:
    """Write the rest of a string whose first quote has been taken; line ends and the like in it are escaped."""
    while character := (yield from characters.take()):
        write(character if character >= " " else json.dumps(character)[1:-1])
        if character == '"':
            return
        if character == "\\":
            write((yield from characters.take()))
    raise Malformed


def copy_value(characters: CharacterReader, write: Write) -> Reading[None]:
    """Write the next value, without the whitespace before it."""
    character = yield from characters.skip_space()
    if character in CLOSED_BY:
        yield from _copy_nested(characters, character, write)
    elif character == '"':
        write(character)
        yield from copy_string(characters, write)
    elif character and character in PLAIN - frozenset(",:"):
        yield from _copy_word(characters, character, write)
    else:
        characters.refuse(character)


def skip_value(characters: CharacterReader) -> Reading[None]:
    """Pass over the next value."""
    yield from copy_value(characters, lambda _: None)


def _copy_nested(characters: CharacterReader, character: str, write: Write) -> Reading[None]:
    awaited: list[str] = []
    while character:
        if character in CLOSED_BY:
            awaited.append(CLOSED_BY[character])
        elif character == awaited[-1]:
            awaited.pop()
        elif character != '"' and character not in PLAIN:
            break
        write(character)
        if not awaited:
            return
        if character == '"':
            yield from copy_string(characters, write)
        character = yield from characters.take()
    characters.refuse(character)


def _copy_word(characters: CharacterReader, character: str, write: Write) -> Reading[None]:
    """A number, or one of the words of JSON."""
    while character and character in PLAIN and character not in " \t\r\n,:":
        write(character)
        character = yield from characters.take()
    characters.give_back(character)
