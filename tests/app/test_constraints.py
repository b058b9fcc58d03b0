"""What is said of a wrong schema, pattern or grammar: where it is, what it is, and what to do."""

import sys

import pytest

from app.settings.constraints import TEXTS, check_text
from app.settings.generation import GenerationSettings
from app.settings.kinds import FormalText, form_of
from engine.errors import InputError
from engine.protocol.options import MOST_CONSTRAINT, Constraint
from engine.text.grammars.trial import try_out

TRAILING_COMMA = (
    "Line 2, column 19: this is no JSON. Take out the comma before the closing bracket."
    if sys.version_info >= (3, 13)  # which knows what is wrong
    else "Line 3, column 3: this is no JSON. A name in double quotes is missing here."
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "The JSON schema is empty. Write one"),
        (" \n", "The JSON schema is empty."),
        ('{\n  "type": "object",\n  }', TRAILING_COMMA),
        ('{\n  "type": "object",\n3}', "Line 3, column 1: this is no JSON. A name in double quotes is missing here."),
        ('{"type" "object"}', "Line 1, column 9: this is no JSON. A colon is missing here."),
        ('{"type": "object"', "A comma or a closing bracket is missing here."),
        ('{"type": }', "A value is missing here"),
        ('{"type": "object}', "Line 1, column 10: this is no JSON. The text that begins here has no closing quote."),
        ('{} {}', "take out what follows"),
        ("[]", "A JSON schema is an object."),
        ('{"type": "sting"}', 'At type: there is no type "sting". Give one of string, number,'),
        ('{"properties": {"age": {"type": ["null", "nil"]}}}', 'At properties › age › type: there is no type "nil".'),
        ('{"type": 3}', "At type: there is no type"),
        ('{"items": {"anyOf": []}}', "At items › anyOf: this is a list, and not empty."),
        ('{"properties": ["name"]}', "At properties: this is an object of schemas."),
        ('{"properties": {"name": "string"}}', "At properties › name: a schema is an object."),
        ('{"required": "name"}', "At required: this is a list of names."),
        ("[" * 100_000, "nested too deeply"),
        ('{"title": "' + "x" * MOST_CONSTRAINT + '"}', f"at most {MOST_CONSTRAINT} characters"),
    ],
)  # fmt: skip
def test_a_wrong_schema_is_told_with_its_place(text: str, words: str) -> None:
    with pytest.raises(InputError) as raised:
        check_text("json_schema", text)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"type": ["string", "null"], "additionalProperties": false}',
        '{"$defs": {"a": true}, "items": [{"type": "null"}], "enum": [1]}',
        '{"properties": {"type": {"type": "string"}, "required": {"enum": ["a"]}}}',
    ],
)
def test_what_may_be_right_is_left_to_the_engine(text: str) -> None:
    check_text("json_schema", text)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "empty"),
        ("a\n(b", "Line 2, column 1: A ( has no )."),
        ("[a", "Line 1, column 1: A [ has no ]."),
        ("a)", "A ) has no (."),
        ("*a", "nothing that *, + or ? could repeat"),
        ("a{3,1}", "least number of repeats"),
    ],
)
def test_a_wrong_pattern_is_told_with_its_place(pattern: str, words: str) -> None:
    with pytest.raises(InputError) as raised:
        check_text("regex", pattern)
    assert words in str(raised.value)


@pytest.mark.parametrize("pattern", [r"\p{L}+", "[a-z&&[^b]]", "(?<year>[0-9]{4})", "a+\n"])
def test_a_pattern_that_only_other_languages_know_is_left_to_the_engine(pattern: str) -> None:
    check_text("regex", pattern)


@pytest.mark.parametrize(
    "grammar", ['root ::= "a"', 'x: "b"\nstart: x', "start[lazy]: /a/", "%llguidance {}\nstart: /a/"]
)
def test_grammars_of_both_kinds_have_a_first_rule(grammar: str) -> None:
    check_text("grammar", grammar)
    with pytest.raises(InputError, match="root ::= in GBNF, or with start: in Lark"):
        check_text("grammar", grammar.replace("root", "rot").replace("start", "begin"))


def test_nothing_is_asked_of_what_has_no_text() -> None:
    check_text("off", "")
    check_text("json", "{")


@pytest.mark.parametrize("kind", TEXTS)
def test_what_an_empty_field_shows_as_its_example_is_right(kind: str) -> None:
    declared = form_of(GenerationSettings)[kind]
    assert isinstance(declared, FormalText)
    declared.check(declared.empty_means)
    constraint = GenerationSettings(**{"constraint": kind, kind: declared.empty_means}).options().constraint  # type: ignore[arg-type]
    assert constraint is not None
    try_out(constraint, {})


@pytest.mark.parametrize("pattern", ["(a", "[a", "a)", "*a", "a{3,1}", "[b-a]"])
def test_a_pattern_that_is_refused_here_is_refused_by_the_engine(pattern: str) -> None:
    with pytest.raises(InputError):
        check_text("regex", pattern)
    with pytest.raises(InputError):
        try_out(Constraint("regex", pattern), {})
