"""Calls with a pair of tags around each argument, as plain text: `<parameter=city>Paris</parameter>` and its like."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.text.tools.marks import expect, read_name
from engine.text.tools.schemas import Schema, argument, to_json, types, values_of
from engine.text.tools.tape import Malformed, Reading, Tape, Write

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

    def read(self, tape: Tape, tools: Mapping[str, Schema]) -> Reading[None]:
        """Read one call."""
        if self.call:
            yield from expect(tape, self.call)
        name, end = yield from read_name(tape, self.named)
        if end in (self.key, self.called):
            tape.give_back(end)
        tape.begin(name)
        count = 0
        while (yield from self._has_another(tape, count)):
            yield from self._argument(tape, tools.get(name, {}), count)
            count += 1
        tape.write("}" if count else "{}")

    def without_call(self) -> "Tagged":
        """The same behind a mark that is `call` itself."""
        return replace(self, call="")

    def _has_another(self, tape: Tape, count: int) -> Reading[bool]:
        character = yield from tape.skip_space()
        tape.give_back(character)
        found = yield from tape.match((self.key, self.called))
        if not found and character:
            tape.write("}" if count else "{}")
        if not found:
            raise Malformed
        return found == self.key

    def _argument(self, tape: Tape, schema: Schema, count: int) -> Reading[None]:
        name, _ = yield from read_name(tape, (self.keyed,))
        if self.value:
            yield from expect(tape, self.value)
        part = argument(schema, name)
        kinds = types(part, schema)
        tape.write(f"{', ' if count else '{'}{json.dumps(name, ensure_ascii=False)}: ")
        if self.on_lines:
            yield from tape.match(("\n",))
        ends = (f"\n{self.valued}", self.valued) if self.on_lines else (self.valued,)
        if kinds == STRING:
            tape.write('"')
            yield from self._until(tape, ends, lambda text: tape.write(json.dumps(text, ensure_ascii=False)[1:-1]))
            tape.write('"')
            return
        characters: list[str] = []
        yield from self._until(tape, ends, characters.append)
        text = "".join(characters)
        is_word = any(value == text for value in values_of(part, schema))
        tape.write(json.dumps(text, ensure_ascii=False) if is_word else to_json(text, kinds))

    def _until(self, tape: Tape, ends: tuple[str, ...], write: Write) -> Reading[None]:
        if not (yield from tape.copy_until(ends, write)):
            raise Malformed
