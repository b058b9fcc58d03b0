"""Calls with a pair of tags around each argument, as plain text: `<parameter=city>Paris</parameter>` and its like."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.text.tools.character_reader import CharacterReader, Malformed, Reading, Write
from engine.text.tools.marks import expect, read_name
from engine.text.tools.schemas import Schema, argument, to_json, types, values_of

STRING = frozenset({"string"})


@dataclass(frozen=True, slots=True)
class Tagged:
    """Reads `call` name `named`, and for each argument `key` its name `keyed` `value` its text `valued`; then `called`.

    `call` and `value` may be empty. `named`: any of these ends the name. `on_lines`: a line end on both sides of a
    value does not belong to it.
    """

    call: str
    named: tuple[str, ...]
    key: str
    keyed: str
    value: str
    valued: str
    called: str
    on_lines: bool = False

    def read(self, characters: CharacterReader, tools: Mapping[str, Schema]) -> Reading[None]:
        """Read one call."""
        if self.call:
            yield from expect(characters, self.call)
        name, end = yield from read_name(characters, self.named)
        if end in (self.key, self.called):
            characters.give_back(end)
        characters.begin(name)
        count = 0
        while (yield from self._has_another(characters, count)):
            yield from self._argument(characters, tools.get(name, {}), count)
            count += 1
        characters.write("}" if count else "{}")

    def without_call(self) -> "Tagged":
        """The same behind a mark that is `call` itself."""
        return replace(self, call="")

    def _has_another(self, characters: CharacterReader, count: int) -> Reading[bool]:
        character = yield from characters.skip_space()
        characters.give_back(character)
        found = yield from characters.match((self.key, self.called))
        if not found and character:
            characters.write("}" if count else "{}")
        if not found:
            raise Malformed
        return found == self.key

    def _argument(self, characters: CharacterReader, schema: Schema, count: int) -> Reading[None]:
        name, _ = yield from read_name(characters, (self.keyed,))
        if self.value:
            yield from expect(characters, self.value)
        part = argument(schema, name)
        kinds = types(part, schema)
        characters.write(f"{', ' if count else '{'}{json.dumps(name, ensure_ascii=False)}: ")
        if self.on_lines:
            yield from characters.match(("\n",))
        ends = (f"\n{self.valued}", self.valued) if self.on_lines else (self.valued,)
        if kinds == STRING:
            characters.write('"')
            yield from self._until(
                characters, ends, lambda text: characters.write(json.dumps(text, ensure_ascii=False)[1:-1])
            )
            characters.write('"')
            return
        written: list[str] = []
        yield from self._until(characters, ends, written.append)
        text = "".join(written)
        is_word = any(value == text for value in values_of(part, schema))
        characters.write(json.dumps(text, ensure_ascii=False) if is_word else to_json(text, kinds))

    def _until(self, characters: CharacterReader, ends: tuple[str, ...], write: Write) -> Reading[None]:
        if not (yield from characters.copy_until(ends, write)):
            raise Malformed
