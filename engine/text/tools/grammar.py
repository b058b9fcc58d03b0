"""The calls of a format as a grammar in llguidance's form of Lark, with arguments that are valid by their schemas."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import InputError
from engine.protocol.options import MOST_CONSTRAINT
from engine.protocol.sentences import say
from engine.text.tools.call_syntax import HARMONY_MARK, PLACE, CallSyntax
from engine.text.tools.schemas import Schema, alone, argument, types, values_of

# As templates write JSON, which is how Python does; free whitespace would have no end.
PYTHON_JSON = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
# Passes over what the library does not know of a schema, and takes one of several cases for any of them.
LENIENT = {"lenient": True, "coerce_one_of": True}
# Other ways to tell of names.
COMBINED = frozenset({"allOf", "anyOf", "oneOf", "$ref", "if", "patternProperties", "unevaluatedProperties"})
# What a schema without a type says of values that are no strings: as JSON they fit it.
NO_TEXT = COMBINED | {
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "not", "items", "prefixItems",
    "minItems", "maxItems", "uniqueItems", "contains", "properties", "required", "additionalProperties",
    "minProperties", "maxProperties", "propertyNames", "dependentRequired", "dependentSchemas",
}  # fmt: skip
NUMBER = "/[0-9]{1,3}/"
PROCESSOR_SECONDS = 5.0  # for one grammar: every argument may refer to all of its tool's schema


@dataclass(frozen=True, slots=True)
class CallGrammar:
    """Writes it. `special`: the ids of the special tokens by name, which a grammar knows by number.

    `lenient`: schemas hold as far as the library knows their keywords.
    """

    syntax: CallSyntax
    special: Mapping[str, int]
    lenient: bool = False

    def text(self, schemas: Mapping[str, Schema], several: bool) -> str:
        """A grammar of one call of any of these tools, or of one and more.

        Raises `InputError` where it would take too long, or be longer than any that is compiled.
        """
        syntax, begun, written = self.syntax, time.thread_time(), 0
        between = self._said(syntax.between)
        more = f"({between} call)*" if several and not syntax.alone else ""
        if more and syntax.between.isspace():
            more = " ".join((more, f"({between})?"))  # written by habit, it must not oblige to another call
        rules = [
            f"start: thought? {self._said(syntax.begin)} call {more} {self._said(syntax.end)}",
            f"thought: {self._thought()}",
            "call: " + " | ".join(f"call_{place}" for place in range(len(schemas))),
        ]
        for place, (name, schema) in enumerate(schemas.items()):
            before, middle, behind = map(self._said, (syntax.before, syntax.middle, syntax.after))
            rules.append(f"call_{place}: {before} {self._name(name)} {middle} arguments_{place} {behind}")
            for rule in self._arguments(f"arguments_{place}", schema):
                rules.append(rule)
                written += len(rule)
                if written > MOST_CONSTRAINT or time.thread_time() - begun > PROCESSOR_SECONDS:
                    raise _too_complex()
        return "\n".join(rules) + "\n"

    def _name(self, name: str) -> str:
        """A name is plain text, whatever it looks like; inside of JSON it is that of a string."""
        return _quoted(_quoted(name)[1:-1] if self.syntax.before.endswith('"') and not self.syntax.tags else name)

    def _said(self, text: str) -> str:
        """A text as the grammar has it: literals, and special tokens by their ids."""
        names = [*map(re.escape, sorted(self.special, key=len, reverse=True)), re.escape(PLACE)]
        parts = filter(None, re.split(f"({'|'.join(names)})", text))
        return " ".join(NUMBER if part == PLACE else self._token(part) or _quoted(part) for part in parts)

    def _token(self, name: str) -> str:
        return f"<[{self.special[name]}]>" if name in self.special else ""

    def _thought(self) -> str:
        """What may come before the first call, in the format whose reasoning is a message like others."""
        if not self.syntax.before.startswith(HARMONY_MARK):
            return _quoted("")
        begin, end = self._said("<|channel|>analysis<|message|>"), self._said("<|end|><|start|>assistant")
        return rf"{begin} /(.|\n)*/ {end}"

    def _arguments(self, rule: str, schema: Schema) -> Iterator[str]:
        if self.syntax.tags is None:
            yield f"{rule}: {self._json({**_closed(schema), **schema})}"
            return
        tags, names, required = self.syntax.tags, *_properties(schema)
        each = [f"{rule}_{place}{'' if name in required else '?'}" for place, name in enumerate(names)]
        yield f"{rule}: {' '.join(each) or _quoted('')}"
        line = "\n" if tags.on_lines else ""
        for place, name in enumerate(names):
            behind = f"{tags.key_close}\n{tags.value_open}" if tags.value_open else f"{tags.key_close}{line}"
            key, part = f"{self._said(tags.key_open)} {_quoted(name)} {self._said(behind)}", argument(schema, name)
            if _is_text(part, schema):
                end = self._token(tags.value_close)
                yield f'{rule}_{place}: {key} {rule}_{place}_text {end} "\\n"'
                suffix = "" if end else f"[suffix={_quoted(tags.value_close)}]"
                yield f"{rule}_{place}_text{suffix}: {_text(part, line)}"
            else:
                value, end = self._value(part, schema), self._said(f"{line}{tags.value_close}\n")
                yield f"{rule}_{place}: {key} {value} {end}"

    def _value(self, part: Schema, whole: Schema) -> str:
        """An argument that is no text of its own: one of some values, or JSON."""
        values = values_of(part, whole)
        if any(isinstance(value, str) for value in values):
            words = dict.fromkeys(value if isinstance(value, str) else json.dumps(value) for value in values)
            return f"({' | '.join(map(_quoted, words))})"
        return self._json(alone(part, whole))

    def _json(self, schema: Mapping[str, Any]) -> str:
        options = {**PYTHON_JSON, **(LENIENT if self.lenient else {})}
        return f"%json {json.dumps({**schema, 'x-guidance': options})}"


def _too_complex() -> InputError:
    return InputError(
        say("The parameters of the tools are too complex to hold calls to them."),
        say("Give fewer tools, or simpler parameters."),
    )


def _closed(schema: Schema) -> dict[str, Any]:
    """What goes without saying: arguments are an object, and have no names but those that the schema tells of."""
    names, required = _properties(schema)
    is_plain = "properties" in schema and not schema.keys() & COMBINED and all(name in names for name in required)
    return {"type": "object", **({"additionalProperties": False} if is_plain else {})}


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _properties(schema: Schema) -> tuple[list[str], list[str]]:
    """The names of the arguments, and of those that are required."""
    properties, required = schema.get("properties"), schema.get("required")
    names = list(properties) if isinstance(properties, Mapping) else []
    return names, required if isinstance(required, list) else []


def _is_text(part: Schema, whole: Schema) -> bool:
    """Whether an argument is written as plain text: strings, and what may be one as far as the schema tells."""
    kinds = types(part, whole)
    return not values_of(part, whole) and ("string" in kinds or (not kinds and not part.keys() & NO_TEXT))


def _text(part: Schema, line: str) -> str:
    """A string as plain text, up to its end tag: of its length, where the schema bounds it, but of any pattern."""
    least, most = (_length(part.get(key)) for key in ("minLength", "maxLength"))
    if most is not None and (least or 0) > most:
        least = most = None
    bounds = f"{{{least or 0},{'' if most is None else most}}}" if least or most is not None else "*"
    return rf"/(.|\n){bounds}{json.dumps(line)[1:-1]}/"


def _length(bound: object) -> int | None:
    """A number of characters; None for anything else that a schema may have in its place."""
    if not isinstance(bound, int | float) or isinstance(bound, bool):
        return None
    return int(bound) if bound >= 0 and bound % 1 == 0 else None
