"""Random JSON schemas of all that is supported: nested objects, arrays, enumerations, numbers, patterns, choices."""

import random
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]
Maker = Callable[[random.Random, int], Schema]

NAMES = ("name", "age", "a b", "ünï", "tags", "x", 'q"', "is_open", "ref", "2")
WORDS = ("red", "green", "", "two words", "ä", '"', "null", "\n")
PATTERNS = ("^[a-z]{1,5}$", "^(ab|cd)+$", r"^\d{2}-\d{2}$", "^[A-Z][a-z]{0,6}!?$", r"^\w{1,4}$")
FORMATS = ("ipv6", "ipv4", "uuid", "ipv4")  # as patterns, dates and times have a 29 February and a 61st second too many


def random_schema(seed: int) -> Schema:
    """The same for the same seed. Documents of it are short: strings, arrays, depths and properties have an end."""
    numbers = random.Random(seed)
    schema = _object(numbers, numbers.choice((1, 2, 2, 3)))
    if numbers.random() < 0.3:
        schema["$defs"] = {"part": _value(numbers, 1), "list": _list_of_itself(numbers)}
        schema["properties"]["part"] = {"$ref": f"#/$defs/{numbers.choice(('part', 'list'))}"}
        schema["required"].append("part")
    return schema


def _value(numbers: random.Random, depth: int) -> Schema:
    makers: tuple[Maker, ...] = (_string, _string, _number, _number, _enumeration, _simple)
    if depth > 0:
        makers = (*makers, _object, _array, _choice)
    return numbers.choice(makers)(numbers, depth)


def _object(numbers: random.Random, depth: int) -> Schema:
    names = numbers.sample(NAMES, numbers.randint(1, 3))
    properties = {name: _value(numbers, depth - 1) for name in names}
    required = [name for name in names if numbers.random() < 0.7]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _array(numbers: random.Random, depth: int) -> Schema:
    schema: Schema = {"type": "array", "items": _value(numbers, depth - 1), "maxItems": numbers.randint(1, 3)}
    if numbers.random() < 0.4:
        schema["minItems"] = numbers.randint(0, schema["maxItems"])
    if numbers.random() < 0.2:
        schema["prefixItems"] = [_value(numbers, 0)]
    return schema


def _choice(numbers: random.Random, depth: int) -> Schema:
    return {"anyOf": [_value(numbers, depth - 1) for _ in range(numbers.randint(2, 3))]}


def _string(numbers: random.Random, depth: int) -> Schema:
    del depth
    kind = numbers.random()
    if kind < 0.35:
        return {"type": "string", "pattern": numbers.choice(PATTERNS), "maxLength": 12}
    if kind < 0.5:
        return {"type": "string", "format": numbers.choice(FORMATS)}
    return {"type": "string", "minLength": numbers.randint(0, 2), "maxLength": numbers.randint(2, 12)}


def _number(numbers: random.Random, depth: int) -> Schema:
    del depth
    kind = numbers.random()
    if kind < 0.4:
        least = numbers.randint(-50, 50)
        return {"type": "integer", "minimum": least, "maximum": least + numbers.randint(0, 500)}
    if kind < 0.6:
        return {"type": "number", "exclusiveMinimum": numbers.randint(0, 3), "maximum": numbers.choice((4, 9.5, 100))}
    if kind < 0.75:
        return {"type": "integer", "multipleOf": numbers.choice((2, 5, 10)), "minimum": 0, "maximum": 1000}
    return {"type": numbers.choice(("integer", "number"))}


def _enumeration(numbers: random.Random, depth: int) -> Schema:
    del depth
    if numbers.random() < 0.3:
        return {"const": numbers.choice((1, "fixed", None, [1, 2], {"a": True}))}
    return {"enum": numbers.sample((*WORDS, 1, 2.5, None, False), numbers.randint(1, 4))}


def _simple(numbers: random.Random, depth: int) -> Schema:
    del depth
    return {"type": numbers.choice(("boolean", "null", ["boolean", "null"]))}


def _list_of_itself(numbers: random.Random) -> Schema:
    value = _value(numbers, 0)
    return {
        "type": "object",
        "properties": {"value": value, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/list"}]}},
        "required": ["value", "next"],
        "additionalProperties": False,
    }
