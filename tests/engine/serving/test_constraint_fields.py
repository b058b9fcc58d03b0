"""The constraint of an answer, in the fields of each kind of client."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from engine.errors import InputError
from engine.protocol.options import MOST_CONSTRAINT, Constraint
from engine.serving.endpoints.constraint_fields import ConstraintFields, TextConfigFormat, constraint_of_format


class Request(ConstraintFields):
    """Such as an endpoint's."""

    model: str = ""


SCHEMA = {"type": "object", "properties": {"ä": {"type": "string"}}}
OF_SCHEMA = Constraint("json_schema", json.dumps(SCHEMA, ensure_ascii=False))
CHOICE = Constraint("lark", 'start: "yes" | "\\"no\\""')
GBNF = Constraint("gbnf", 'root ::= "a"')

ASKED: list[tuple[dict[str, Any], Constraint | None]] = [
    ({}, None),
    ({"response_format": None, "grammar": "", "structured_outputs": {}}, None),
    ({"response_format": {"type": "text"}}, None),
    ({"response_format": {"type": "json_object"}}, Constraint("json")),
    ({"response_format": {"type": "json_object", "schema": SCHEMA}}, OF_SCHEMA),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}}, OF_SCHEMA),
    ({"response_format": {"type": "json_schema", "schema": SCHEMA}}, OF_SCHEMA),
    ({"grammar": GBNF.text}, GBNF),
    ({"json_schema": SCHEMA}, OF_SCHEMA),
    ({"json_schema": {}}, Constraint("json_schema", "{}")),
    ({"guided_json": SCHEMA}, OF_SCHEMA),
    ({"guided_json": OF_SCHEMA.text}, OF_SCHEMA),
    ({"guided_regex": "a+"}, Constraint("regex", "a+")),
    ({"guided_choice": ["yes", '"no"']}, CHOICE),
    ({"guided_grammar": GBNF.text}, GBNF),
    ({"structured_outputs": {"json": SCHEMA}}, OF_SCHEMA),
    ({"structured_outputs": {"regex": "a+"}}, Constraint("regex", "a+")),
    ({"structured_outputs": {"choice": ["yes", '"no"']}}, CHOICE),
    ({"structured_outputs": {"grammar": GBNF.text}}, GBNF),
    ({"structured_outputs": {"json_object": True}}, Constraint("json")),
]


@pytest.mark.parametrize(("asked", "expected"), ASKED)
def test_every_client_s_way_to_ask(asked: dict[str, Any], expected: Constraint | None) -> None:
    assert Request.model_validate({"model": "x", **asked}).constraint() == expected


def test_the_flat_form_of_the_responses_api() -> None:
    class Text(BaseModel):
        format: TextConfigFormat

    asked = {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": True}
    assert constraint_of_format(Text.model_validate({"format": asked}).format) == OF_SCHEMA
    assert constraint_of_format(TypeAdapter(TextConfigFormat).validate_python({"type": "text"})) is None


def test_what_says_too_much_or_too_little_is_refused() -> None:
    with pytest.raises(InputError, match="more than one field"):
        Request.model_validate({"grammar": "a", "guided_regex": "a"}).constraint()
    for asked in ({"type": "json_schema"}, {"type": "json_schema", "json_schema": {"name": "a"}}):
        with pytest.raises(InputError, match="without a schema"):
            Request.model_validate({"response_format": asked}).constraint()
    refused: list[dict[str, Any]] = [
        {"response_format": {"type": "xml"}},
        {"response_format": "json"},
        {"grammar": "a" * (MOST_CONSTRAINT + 1)},
        {"guided_choice": []},
    ]
    for fields in refused:
        with pytest.raises(ValidationError):
            Request.model_validate(fields)
