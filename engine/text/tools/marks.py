"""What stands between the marks of a call: the next mark, and names up to it."""

from engine.text.tools.character_reader import CharacterReader, Malformed, Reading

LONGEST_NAME = 256  # characters


def expect(characters: CharacterReader, mark: str) -> Reading[None]:
    """Take the mark, which whitespace may precede; raises `Malformed` where another text follows."""
    character = yield from characters.skip_space()
    characters.give_back(character)
    if not (yield from characters.match((mark,))):
        raise Malformed


def read_name(characters: CharacterReader, ends: tuple[str, ...]) -> Reading[tuple[str, str]]:
    """A name, and which of the marks came behind it."""
    name = yield from characters.skip_space()
    characters.give_back(name)
    name = ""
    while not (end := (yield from characters.match(ends))):
        character = yield from characters.take()
        name += character
        if not character or character in "<>{}" or len(name) > LONGEST_NAME:
            raise Malformed
    if not name.strip():
        raise Malformed
    return name.strip(), end
