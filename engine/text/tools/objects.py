"""Calls that are written as JSON objects: `{"name": ..., "arguments": {...}}`, alone, in a row or in a list."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.text.tools.character_reader import CharacterReader, Malformed, Reading
from engine.text.tools.json_text import copy_value, read_string, skip_value
from engine.text.tools.schemas import Schema

NAMES = ("name", "tool_name", "function")
ARGUMENTS = ("arguments", "parameters")
SAID_BEFORE = ("type", "id")  # what else a call may say before its name
NO_ARGUMENTS = ("", "null", '""')


@dataclass(frozen=True, slots=True)
class Objects:
    """Reads them. `id_key`: what the model calls its id of a call, empty where that is not used.

    `known`: only an object that names one of the tools is a call, as where no mark says that one follows.
    """

    id_key: str = ""
    known: bool = False

    def read(self, characters: CharacterReader, tools: Mapping[str, Schema]) -> Reading[None]:
        """Read as many as follow each other."""
        character = yield from characters.skip_space()
        in_list = character == "["
        if in_list:
            character = yield from characters.skip_space()
        if character != "{":
            characters.refuse(character)
        while character == "{":
            yield from _Object(self, characters, tools).read()
            character = yield from self._next(characters, "]" if in_list else "")

    def _next(self, characters: CharacterReader, end: str) -> Reading[str]:
        """The `{` of another object; empty where there is none, and nothing but the end of the list is taken then."""
        characters.forget()
        passed = ""
        while character := (yield from characters.take()):
            passed += character
            if character == "{":
                return character
            if end and character == end:
                characters.forget()
                return ""
            if not character.isspace() and character not in ",;":
                break
        characters.give_back(passed)
        return ""


class _Object:
    """One of them. It begins as soon as its name is known; arguments that come before it wait."""

    def __init__(self, style: Objects, characters: CharacterReader, tools: Mapping[str, Schema]) -> None:
        self._style, self._characters, self._tools = style, characters, tools
        self._id = ""
        self._has_begun = self._has_arguments = False
        self._early: list[str] = []

    def read(self) -> Reading[None]:
        """Read it; its `{` has been taken."""
        yield from self._members(is_outer=True)
        if not self._has_begun:
            raise Malformed
        if not self._has_arguments:
            self._characters.write("{}")

    def _members(self, is_outer: bool) -> Reading[None]:
        characters = self._characters
        while True:
            yield from characters.expect('"')
            key = yield from read_string(characters)
            yield from characters.expect(":")
            yield from self._member(key, is_outer)
            character = yield from characters.skip_space()
            if character == "}":
                return
            if character != ",":
                characters.refuse(character)

    def _member(self, key: str, is_outer: bool) -> Reading[None]:
        characters = self._characters
        character = yield from characters.skip_space()
        if key in NAMES and character == '"' and not self._has_begun:
            self._begin((yield from read_string(characters)))
        elif key == "function" and character == "{" and is_outer:
            yield from self._members(is_outer=False)
        elif key == self._style.id_key and character == '"':
            self._id = yield from read_string(characters)
        elif key in ARGUMENTS and not self._has_arguments:
            self._has_arguments = True
            yield from self._arguments(character)
        else:
            characters.give_back(character)
            if self._style.known and not self._has_begun and key not in SAID_BEFORE:
                raise Malformed  # an answer in JSON, which should not wait for its end
            yield from skip_value(characters)

    def _begin(self, name: str) -> None:
        if not name or (self._style.known and name not in self._tools):
            raise Malformed
        self._has_begun = True
        self._characters.begin(name, self._id)
        if self._early:
            self._characters.write("".join(self._early))

    def _arguments(self, first: str) -> Reading[None]:
        """The arguments as they come, or all at once where they are a string or a word."""
        write = self._characters.write if self._has_begun else self._early.append
        if first == '"':
            text = yield from read_string(self._characters)
            write("{}" if text.strip() in NO_ARGUMENTS else text)
            return
        self._characters.give_back(first)
        if first == "{":
            yield from copy_value(self._characters, write)
            return
        word: list[str] = []
        yield from copy_value(self._characters, word.append)
        write("{}" if "".join(word) in NO_ARGUMENTS else "".join(word))
