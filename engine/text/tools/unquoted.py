"""Calls with arguments like JSON whose names have no quotes and whose strings have marks instead, as Gemma's."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.text.tools.marks import expect, read_name
from engine.text.tools.schemas import DEEPEST, Schema, to_json
from engine.text.tools.tape import Malformed, Reading, Tape

ENDS = ",}]"  # of a number or a word


@dataclass(frozen=True, slots=True)
class Unquoted:
    """Reads them: `call:name{city:<|"|>Paris<|"|>,days:3}`. `quote`: the mark on both sides of a string."""

    quote: str

    def read(self, tape: Tape, _tools: Mapping[str, Schema]) -> Reading[None]:
        """Read one call."""
        yield from expect(tape, "call:")
        name, _ = yield from read_name(tape, ("{",))
        tape.begin(name)
        yield from self._row(tape, "{}", self._member, DEEPEST)

    def _row(self, tape: Tape, brackets: str, item: Callable[[Tape, int], Reading[None]], room: int) -> Reading[None]:
        """The items up to the second bracket; the first one has been taken."""
        if not room:
            raise Malformed
        tape.write(brackets[0])
        character, is_first = (yield from tape.skip_space()), True
        while character != brackets[1]:
            if is_first:
                tape.give_back(character)
            elif character == ",":
                tape.write(", ")
            else:
                tape.give_back(character)
                raise Malformed
            yield from item(tape, room - 1)
            character, is_first = (yield from tape.skip_space()), False
        tape.write(brackets[1])

    def _member(self, tape: Tape, room: int) -> Reading[None]:
        name, _ = yield from read_name(tape, (":",))
        tape.write(f"{json.dumps(name, ensure_ascii=False)}: ")
        yield from self._value(tape, room)

    def _value(self, tape: Tape, room: int) -> Reading[None]:
        character = yield from tape.skip_space()
        if character == "{":
            yield from self._row(tape, "{}", self._member, room)
        elif character == "[":
            yield from self._row(tape, "[]", self._value, room)
        else:
            tape.give_back(character)
            yield from self._scalar(tape)

    def _scalar(self, tape: Tape) -> Reading[None]:
        if (yield from tape.match((self.quote,))):
            tape.write('"')
            mark = yield from tape.copy_until(
                (self.quote,), lambda text: tape.write(json.dumps(text, ensure_ascii=False)[1:-1])
            )
            if not mark:
                raise Malformed
            tape.write('"')
            return
        word = ""
        while (character := (yield from tape.take())) and character not in ENDS:
            word += character
        tape.give_back(character)
        if not word.strip() or not character:
            raise Malformed
        tape.write(to_json(word.strip(), frozenset()))
