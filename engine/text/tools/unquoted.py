"""Calls with arguments like JSON whose names have no quotes and whose strings have marks instead, as Gemma's."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.text.tools.character_reader import CharacterReader, Malformed, Reading
from engine.text.tools.schemas import DEEPEST, Schema, to_json

ENDS = ",}]"  # of a number or a word


@dataclass(frozen=True, slots=True)
class Unquoted:
    """Reads them: `call:name{city:<|"|>Paris<|"|>,days:3}`. `quote`: the mark on both sides of a string."""

    quote: str

    def read(self, characters: CharacterReader, _tools: Mapping[str, Schema]) -> Reading[None]:
        """Read one call."""
        yield from characters.expect("call:")
        name, _ = yield from characters.name_until(("{",))
        characters.begin(name)
        yield from self._items(characters, "{}", self._member, DEEPEST)

    def _items(
        self,
        characters: CharacterReader,
        brackets: str,
        item: Callable[[CharacterReader, int], Reading[None]],
        room: int,
    ) -> Reading[None]:
        """The items up to the second bracket; the first one has been taken."""
        if not room:
            raise Malformed
        characters.write(brackets[0])
        character, is_first = (yield from characters.skip_space()), True
        while character != brackets[1]:
            if is_first:
                characters.give_back(character)
            elif character == ",":
                characters.write(", ")
            else:
                characters.refuse(character)
            yield from item(characters, room - 1)
            character, is_first = (yield from characters.skip_space()), False
        characters.write(brackets[1])

    def _member(self, characters: CharacterReader, room: int) -> Reading[None]:
        name, _ = yield from characters.name_until((":",))
        characters.write(f"{json.dumps(name, ensure_ascii=False)}: ")
        yield from self._value(characters, room)

    def _value(self, characters: CharacterReader, room: int) -> Reading[None]:
        character = yield from characters.skip_space()
        if character == "{":
            yield from self._items(characters, "{}", self._member, room)
        elif character == "[":
            yield from self._items(characters, "[]", self._value, room)
        else:
            characters.give_back(character)
            yield from self._scalar(characters)

    def _scalar(self, characters: CharacterReader) -> Reading[None]:
        if (yield from characters.match((self.quote,))):
            characters.write('"')
            mark = yield from characters.copy_until(
                (self.quote,), lambda text: characters.write(json.dumps(text, ensure_ascii=False)[1:-1])
            )
            if not mark:
                raise Malformed
            characters.write('"')
            return
        word = ""
        while (character := (yield from characters.take())) and character not in ENDS:
            word += character
        characters.give_back(character)
        if not word.strip() or not character:
            raise Malformed
        characters.write(to_json(word.strip(), frozenset()))
