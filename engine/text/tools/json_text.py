"""JSON read one character at a time: strings whole, other values copied as they come."""

import json

from engine.text.tools.tape import Malformed, Reading, Tape, Write

CLOSED_BY = {"{": "}", "[": "]"}
# What stands in JSON outside of its strings; anything else is the end of what is well formed.
PLAIN = frozenset(" \t\r\n,:+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")


def read_string(tape: Tape) -> Reading[str]:
    """What a string says whose first quote has been taken."""
    raw: list[str] = []
    yield from copy_string(tape, raw.append)
    try:
        text = str(json.loads('"' + "".join(raw)))
        text.encode()  # half a surrogate pair is no text
    except ValueError:  # such as \x
        raise Malformed from None
    return text


def copy_string(tape: Tape, write: Write) -> Reading[None]:
    """Write the rest of a string whose first quote has been taken; line ends and the like in it are escaped."""
    while character := (yield from tape.take()):
        write(character if character >= " " else json.dumps(character)[1:-1])
        if character == '"':
            return
        if character == "\\":
            write((yield from tape.take()))
    raise Malformed


def copy_value(tape: Tape, write: Write) -> Reading[None]:
    """Write the next value, without the whitespace before it."""
    character = yield from tape.skip_space()
    if character in CLOSED_BY:
        yield from _copy_nested(tape, character, write)
    elif character == '"':
        write(character)
        yield from copy_string(tape, write)
    elif character and character in PLAIN - frozenset(",:"):
        yield from _copy_word(tape, character, write)
    else:
        tape.give_back(character)
        raise Malformed


def skip_value(tape: Tape) -> Reading[None]:
    """Pass over the next value."""
    yield from copy_value(tape, lambda _: None)


def _copy_nested(tape: Tape, character: str, write: Write) -> Reading[None]:
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
            yield from copy_string(tape, write)
        character = yield from tape.take()
    tape.give_back(character)
    raise Malformed


def _copy_word(tape: Tape, character: str, write: Write) -> Reading[None]:
    """A number, or one of the words of JSON."""
    while character and character in PLAIN and character not in " \t\r\n,:":
        write(character)
        character = yield from tape.take()
    tape.give_back(character)
