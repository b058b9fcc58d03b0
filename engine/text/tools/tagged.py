"""Calls with a pair of tags around each argument, as plain text: `<parameter=city>Paris</parameter>` and its like."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.text.tools.character_reader import CharacterReader, Malformed, Reading, Write
from engine.text.tools.schemas import Schema, argument, to_json, types, values_of

STRING = frozenset({"string"})


@dataclass(frozen=True, slots=True)
class Tagged:
    """Reads calls of this form, whose `call_open` and `value_open` may be empty.

    A call is `call_open` name `name_ends`, then `key_open` name `key_close` `value_open` text `value_close` for each
    argument, then `call_close`. `name_ends`: any of these ends the name. `on_lines`: a line end on both sides of a
    value does not belong to it.
    """

    call_open: str
    name_ends: tuple[str, ...]
    key_open: str
    key_close: str
    value_open: str
    value_close: str
    call_close: str
    on_lines: bool = False

    def read(self, characters: CharacterReader, tools: Mapping[str, Schema]) -> Reading[None]:
        """Read one call."""
        if self.call_open:
            yield from characters.expect(self.call_open)
        name, end = yield from characters.name_until(self.name_ends)
        if end in (self.key_open, self.call_close):
            characters.give_back(end)
        characters.begin(name)
        count = 0
        while (yield from self._has_another(characters, count)):
            yield from self._argument(characters, tools.get(name, {}), count)
            count += 1
        characters.write("}" if count else "{}")

    def without_call(self) -> "Tagged":
        """The same behind a mark that is `call_open` itself."""
        return replace(self, call_open="")

    def _has_another(self, characters: CharacterReader, count: int) -> Reading[bool]:
        character = yield from characters.peek()
        found = yield from characters.match((self.key_open, self.call_close))
        if not found and character and not characters.is_over:
            characters.write("}" if count else "{}")
        if not found:
            raise Malformed
        return found == self.key_open

    def _argument(self, characters: CharacterReader, schema: Schema, count: int) -> Reading[None]:
        name, _ = yield from characters.name_until((self.key_close,))
        if self.value_open:
            yield from characters.expect(self.value_open)
        part = argument(schema, name)
        kinds = types(part, schema)
        characters.write(f"{', ' if count else '{'}{json.dumps(name, ensure_ascii=False)}: ")
        if self.on_lines:
            yield from characters.match(("\n",))
        ends = (f"\n{self.value_close}", self.value_close) if self.on_lines else (self.value_close,)
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
