"""What is wrong with the text of a constraint, as far as that is seen without the engine: in words, and where.

The engine compiles schemas and grammars, and has the last word; what is told here is told while it is typed.
"""

import re
import warnings
from collections.abc import Iterator
from typing import Any

from app.system import json_text as json
from engine.errors import InputError
from engine.protocol.options import MOST_CONSTRAINT
from engine.protocol.sentences import Sentence, say

OFF, ANY_JSON, JSON_SCHEMA, REGEX, GRAMMAR = "off", "json", "json_schema", "regex", "grammar"
TEXTS = (JSON_SCHEMA, REGEX, GRAMMAR)  # also the names of the settings that hold these texts

_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_MOST_PATTERN = 20_000  # characters that are looked at here: a pattern that long is no typing mistake
_ROOT = re.compile(r"^\s*(root\s*::=|start\s*(\[[^\]\n]*\])?\s*(\{[^}\n]*\})?\s*:)", re.MULTILINE)


def check_text(kind: str, text: str) -> None:
    """Raise `InputError` for a schema, pattern or grammar that no engine can use; without one of these all is well."""
    if kind not in TEXTS:
        return
    if not text.strip():
        raise InputError(*_EMPTY[kind])
    if len(text) > MOST_CONSTRAINT:
        words = say("The text has {count} characters.", count=len(text))
        raise InputError(words, say("Give at most {most} characters.", most=MOST_CONSTRAINT))
    _CHECKS[kind](text)


def constraint_text(kind: str, text: str) -> str:
    """The text as the engine takes it: an editor ends a pattern with a line break that is not meant."""
    return text.strip("\r\n") if kind == REGEX else text


_EMPTY: dict[str, tuple[Sentence, Sentence]] = {
    JSON_SCHEMA: (say("The JSON schema is empty."), say("Write one, or open a file.")),
    REGEX: (say("The regular expression is empty."), say("Write one, or open a file.")),
    GRAMMAR: (say("The grammar is empty."), say("Write one, or open a file.")),
}


# ---- JSON schemas ----------------------------------------------------------------------------------------------------


def _check_schema(text: str) -> None:
    try:
        schema = json.loads(text)
    except json.JSONDecodeError as error:
        where = say("Line {line}, column {column}: this is no JSON.", line=error.lineno, column=error.colno)
        raise InputError(where, _advice(error.msg)) from None
    except (RecursionError, ValueError):  # also a number of thousands of digits
        raise InputError(say("The JSON schema is nested too deeply, or has a number that is too long.")) from None
    if not isinstance(schema, dict):
        raise InputError(say("A JSON schema is an object."), say("Begin with {{ and end with }}."))
    for path, words, hint in _faults(schema):
        raise InputError(say("At {path}: {words}", path=path, words=words), hint)


_ADVICE = {
    "Expecting value": say("A value is missing here: a text in quotes, a number, true, false, null, [ or an object."),
    "Expecting ',' delimiter": say("A comma or a closing bracket is missing here."),
    "Expecting ':' delimiter": say("A colon is missing here."),
    "Expecting property name enclosed in double quotes": say("A name in double quotes is missing here."),
    "Illegal trailing comma": say("Take out the comma before the closing bracket."),
    "Extra data": say("The schema has ended before this; take out what follows."),
    "Unterminated string": say("The text that begins here has no closing quote."),
    "Invalid control character": say("A text ends on the line it began on: write \\n for a line break."),
    "Invalid \\": say("Write \\\\ for a backslash."),
}


def _advice(message: str) -> Sentence | str:
    return next((words for begin, words in _ADVICE.items() if message.startswith(begin)), "")


_Fault = tuple[str, Sentence, Sentence]
_OF_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "not", "if", "then", "else")


def _faults(schema: dict[str, Any]) -> Iterator[_Fault]:
    """What is wrong with this schema or one inside it: where, what, and what to do."""
    rest: list[tuple[str, Any]] = [("", schema)]
    while rest:
        path, each = rest.pop()
        if isinstance(each, bool):  # such as "additionalProperties": false
            continue
        if not isinstance(each, dict):
            hint = say('Write it like {{"type": "string"}}.')
            yield path, say("a schema is an object."), hint
            continue
        yield from _own_faults(path, each)
        rest += reversed(list(_inner(path, each)))


def _inner(path: str, schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in _OF_SCHEMAS:
        if isinstance(inner := schema.get(name), dict):
            yield from ((_below(path, name, key), value) for key, value in inner.items())
    for name in _LISTS:
        if isinstance(inner := schema.get(name), list):
            yield from ((_below(path, name, str(place)), value) for place, value in enumerate(inner))
    for name in _SCHEMAS:
        if name in schema and not (name == "items" and isinstance(schema[name], list)):  # an earlier draft's tuples
            yield _below(path, name), schema[name]


def _own_faults(path: str, schema: dict[str, Any]) -> Iterator[_Fault]:
    kinds = schema.get("type", [])
    for kind in [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else [str(kinds)]:
        if kind not in _TYPES:
            words = say("there is no type {name}.", name=json.dumps(kind, ensure_ascii=False)[:60])
            yield _below(path, "type"), words, say("Give one of {names}.", names=", ".join(_TYPES))
    for name in _OF_SCHEMAS:
        if not isinstance(schema.get(name, {}), dict):
            yield _below(path, name), say("this is an object of schemas."), say("Give each a name.")
    required = schema.get("required", [])
    if not (isinstance(required, list) and all(isinstance(each, str) for each in required)):
        yield _below(path, "required"), say("this is a list of names."), say('Write it like ["name", "age"].')
    for name in ("enum", *_LISTS):
        if name in schema and not (isinstance(schema[name], list) and schema[name]):
            yield _below(path, name), say("this is a list, and not empty."), say("Write it in square brackets.")


def _below(path: str, *names: str) -> str:
    return " › ".join((*([path] if path else []), *(name[:60] for name in names)))


# ---- patterns and grammars -------------------------------------------------------------------------------------------

_PATTERN_FAULTS = {
    "unterminated character set": say("A [ has no ]."),
    "missing ), unterminated subpattern": say("A ( has no )."),
    "unbalanced parenthesis": say("A ) has no (."),
    "nothing to repeat": say("There is nothing that *, + or ? could repeat."),
    "min repeat greater than max repeat": say("The least number of repeats is above the largest."),
    "bad character range": say("The range begins behind its end."),
}
"""What is wrong in Python's patterns and in the engine's alike; the rest differs, and is left to the engine."""


def _check_pattern(text: str) -> None:
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(constraint_text(REGEX, text) if len(text) <= _MOST_PATTERN else "")
    except re.error as error:
        for begin, words in _PATTERN_FAULTS.items():
            if error.msg.startswith(begin):
                where = say("Line {line}, column {column}: {words}", line=error.lineno, column=error.colno, words=words)
                raise InputError(where, say("Write a \\ before a character that stands for itself.")) from None
    except (RecursionError, OverflowError):
        return


def _check_grammar(text: str) -> None:
    if not _ROOT.search(text):
        hint = say("Begin with root ::= in GBNF, or with start: in Lark.")
        raise InputError(say("The grammar has no first rule."), hint)


_CHECKS = {JSON_SCHEMA: _check_schema, REGEX: _check_pattern, GRAMMAR: _check_grammar}
