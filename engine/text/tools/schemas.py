"""The JSON schemas of tools: what they say of each argument, and arguments written as plain text made JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from engine.errors import InputError
from engine.protocol.sentences import say
from engine.protocol.tools import Tool

Schema = Mapping[str, Any]

DEEPEST = 64  # levels of a schema, and references that lead on from one to the next
MOST_CHOICES = 256  # of a value; what has more is held to its schema, but not looked through
WHOLE = "tool"  # the name of all parameters among the definitions of one
CHOICES = ("anyOf", "oneOf")
WORDS = {"true": "true", "false": "false", "none": "null", "null": "null"}
PYTHON = {"string": str, "boolean": bool, "null": type(None), "array": list, "object": dict}


def parameters_of(tool: Tool) -> dict[str, Any]:
    """The schema of the tool's arguments; raises `InputError` where it is no JSON object."""
    try:
        parameters = json.loads(tool.parameters or "{}")
    except (ValueError, RecursionError):
        parameters = None
    if not isinstance(parameters, dict) or not is_shallow(parameters):
        raise InputError(
            say("The parameters of the tool '{name}' are no JSON object.", name=tool.name),
            say("Give the JSON schema of an object, nested no deeper than {most} times.", most=DEEPEST),
        )
    return parameters or {"type": "object", "properties": {}}


def is_shallow(value: object, room: int = DEEPEST) -> bool:
    """Whether a JSON value is nested no deeper than that."""
    if not isinstance(value, dict | list):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return room > 0 and all(is_shallow(part, room - 1) for part in parts)


def schemas_of(tools: Iterable[Tool]) -> dict[str, Schema]:
    """The parameters of each tool, by its name; where they refer to a part of themselves, that part beside the rest."""
    wholes = {tool.name: parameters_of(tool) for tool in tools}
    return {name: _without_reference(whole) | _followed(whole, whole) for name, whole in wholes.items()}


def argument(schema: Schema, name: str) -> Schema:
    """What a tool's parameters say of the argument of this name; nothing where they are silent."""
    properties = schema.get("properties")
    found = properties.get(name) if isinstance(properties, Mapping) else None
    return _followed(found, schema) if isinstance(found, Mapping) else {}


def alone(part: Schema, whole: Schema) -> Schema:
    """A part as a schema of its own: what it refers to inside of the whole is a definition of it."""
    if '"$ref"' not in json.dumps(part):
        return part
    return {**_moved(part), "$defs": {WHOLE: _moved(whole)}}


def _moved(value: Any) -> Any:
    """A value of a schema whose references lead into the definition of the whole."""
    if isinstance(value, list):
        return [_moved(each) for each in value]
    if not isinstance(value, dict):
        return value
    moved = {key: _moved(each) for key, each in value.items()}
    name = value.get("$ref")
    return {**moved, "$ref": f"#/$defs/{WHOLE}{name[1:]}"} if isinstance(name, str) and name[:1] == "#" else moved


def types(part: Schema, whole: Schema) -> frozenset[str]:
    """The types that a value may have; empty where the schema does not tell. `whole` has the definitions."""
    said = part.get("type")
    if isinstance(said, str):
        return frozenset({said})
    if isinstance(said, Sequence):
        return frozenset(each for each in said if isinstance(each, str))
    if values := _listed(part):
        return frozenset(map(_type_of, values))
    each = [types(choice, {}) for choice in _choices(part, whole)]
    return frozenset().union(*each) if all(each) else frozenset()


def values_of(part: Schema, whole: Schema) -> list[Any]:
    """The values that an argument has to be one of; none where it may have others."""
    if values := _listed(part):
        kinds = types({"type": part.get("type")}, {})
        return [value for value in values if not kinds or any(_is_of(value, kind) for kind in kinds)]
    each = [[None] if types(choice, {}) == {"null"} else values_of(choice, {}) for choice in _choices(part, whole)]
    return [value for values in each for value in values] if all(each) else []


def _listed(part: Schema) -> list[Any]:
    """The values that a schema itself lists."""
    values = [part["const"]] if "const" in part else part.get("enum")
    return values if isinstance(values, list) else []


def _choices(part: Schema, whole: Schema) -> list[Schema]:
    """The schemas of which a value has to fit one; none where there are too many to be looked at."""
    found = next((part[key] for key in CHOICES if isinstance(part.get(key), list)), ())
    if len(found) > MOST_CHOICES:
        return []
    return [_followed(choice, whole) for choice in found if isinstance(choice, Mapping)]


def _followed(part: Schema, whole: Schema) -> dict[str, Any]:
    """What a schema refers to inside of the whole, with what it says beside; itself where it refers to nothing."""
    seen: set[str] = set()
    while isinstance(name := part.get("$ref"), str) and name not in seen and len(seen) < DEEPEST:
        seen.add(name)
        found = _at(name, whole)
        if not isinstance(found, Mapping):
            break
        part = {**found, **_without_reference(part)}
    return {**part}


def _without_reference(part: Schema) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != "$ref"}


def _at(pointer: str, whole: Schema) -> object:
    """What lies at `#/path/inside`; None where nothing does."""
    root, *keys = pointer.split("/")
    found: object = whole if root == "#" else None
    for key in (unquote(key).replace("~1", "/").replace("~0", "~") for key in keys):
        if isinstance(found, list):
            found = found[int(key)] if key.isdecimal() and int(key) < len(found) else None
        else:
            found = found.get(key) if isinstance(found, Mapping) else None
    return found


def to_json(text: str, kinds: frozenset[str]) -> str:
    """A value that was written as plain text, as JSON of one of these types if it can be read so, else a string."""
    word = WORDS.get(text.strip().lower(), text.strip())
    try:
        value = json.loads(word, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
    is_meant = not kinds or any(_is_of(value, kind) for kind in kinds)
    return word if is_meant and not isinstance(value, str) else json.dumps(text, ensure_ascii=False)


def _is_of(value: object, kind: str) -> bool:
    if kind in ("number", "integer"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, PYTHON.get(kind, str))


def _type_of(value: object) -> str:
    return next((name for name, kind in PYTHON.items() if isinstance(value, kind)), "number")


def _refuse(word: str) -> None:
    raise ValueError(word)
