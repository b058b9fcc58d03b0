"""What stands between the marks of a call: the next mark, and names up to it."""

from engine.text.tools.tape import Malformed, Reading, Tape

LONGEST_NAME = 256  # characters


def expect(tape: Tape, mark: str) -> Reading[None]:
    """Take the mark, which whitespace may precede; raises `Malformed` where another text follows."""
    character = yield from tape.skip_space()
    tape.give_back(character)
    if not (yield from tape.match((mark,))):
        raise Malformed


def read_name(tape: Tape, ends: tuple[str, ...]) -> Reading[tuple[str, str]]:
    """A name, and which of the marks came behind it."""
    name = yield from tape.skip_space()
    tape.give_back(name)
    name = ""
    while not (end := (yield from tape.match(ends))):
        character = yield from tape.take()
        name += character
        if not character or character in "<>{}" or len(name) > LONGEST_NAME:
            raise Malformed
    if not name.strip():
        raise Malformed
    return name.strip(), end
