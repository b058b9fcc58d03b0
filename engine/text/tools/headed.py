"""Calls whose name stands in a header before the JSON of their arguments: `name[ARGS]{...}` and its like."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.text.tools.character_reader import CharacterReader, Malformed, Reading
from engine.text.tools.divider import Reader
from engine.text.tools.json_text import copy_value
from engine.text.tools.schemas import Schema

MOST_HEADER_CHARACTERS = 512


@dataclass(frozen=True, slots=True)
class Headed:
    """Reads them. `header`: all between the mark and the arguments, with the groups `name` and perhaps `id`.

    `ends`: a header that one of these follows is that of a call without arguments.
    """

    header: re.Pattern[str]
    ends: Sequence[str] = field(default=())

    def read(self, characters: CharacterReader, _tools: Mapping[str, Schema]) -> Reading[None]:
        """Read one call."""
        text, end, character = "", "", ""
        while not end and (character := (yield from characters.take())) != "{":
            text += character
            end = next(filter(text.endswith, self.ends), "")
            if not character or len(text) > MOST_HEADER_CHARACTERS:
                raise Malformed
        characters.give_back(end or character)
        found = self.header.fullmatch(text.removesuffix(end) if end else text)
        if found is None:
            raise Malformed
        characters.begin(found["name"], found.groupdict().get("id") or "")
        if end:
            characters.write("{}")
        else:
            yield from copy_value(characters, characters.write)


@dataclass(frozen=True, slots=True)
class EitherWay:
    """Reads what follows one mark in two ways: JSON where a bracket begins it, otherwise a header."""

    json: Reader
    header: Headed

    def read(self, characters: CharacterReader, tools: Mapping[str, Schema]) -> Reading[None]:
        """Read one call, or a list of them."""
        reader = self.json if (yield from characters.peek()) in ("[", "{") else self.header
        yield from reader.read(characters, tools)
