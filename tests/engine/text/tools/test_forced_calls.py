"""An answer that has to call a tool is one that is read as calls, with arguments that are valid by their schemas."""

import functools
import itertools
import json
import random
import re
from collections.abc import Sequence
from typing import Any

import jsonschema_rs
import pytest

from engine.errors import InputError
from engine.protocol.messages import ChatMessage
from engine.protocol.options import Constraint
from engine.protocol.tools import Tool, ToolChoice
from engine.text.calling import tool_constraint
from engine.text.grammars.constrained_answer import state_of_answer
from engine.text.grammars.grammar import Grammar
from engine.text.pieces import CallArguments, CallBegun, Content
from engine.text.prompt import write_prompt
from engine.text.tokenizer import Tokenizer
from engine.text.tools.schemas import DEEPEST, MOST_CHOICES, schemas_of, types, values_of
from tests.campaigns.extent import choose
from tests.engine.text.tools.recorded import TOOLS
from tests.engine.text.tools.test_tool_answers import QUESTION, answered
from tests.engine.text.tools.tool_templates import FORGETFUL, KNOWING, NO_TOOLS, PHI_MINI, ToolFamily

SIZES = Tool(
    "sizes",
    "",
    '{"type": "object", "$defs": {"size": {"type": "integer", "minimum": 2, "maximum": 40}}, "properties": {'
    '"unit": {"enum": ["cm", "inch"]}, "each": {"type": "array", "items": {"$ref": "#/$defs/size"}, "maxItems": 2},'
    ' "note": {"type": "string", "maxLength": 5}}, "required": ["each", "note"], "additionalProperties": false}',
)
WORDS = Tool(
    "words",
    "",
    '{"type": "object", "$defs": {"colour": {"enum": ["red", "two words"]}, "pen": {"$ref": "#/$defs/colour"}},'
    ' "definitions": {"a/b": {"type": "string", "minLength": 1.0, "maxLength": 3}}, "properties": {'
    '"const": {"const": "x"}, "typed": {"type": "string", "const": "y"}, "mixed": {"enum": ["x", null, 7, "true"]},'
    ' "typed_mixed": {"type": "string", "enum": ["null", null]}, "pen": {"$ref": "#/$defs/pen", "title": "Pen"},'
    ' "ink": {"anyOf": [{"$ref": "#/$defs/pen"}, {"type": "null"}]}, "short": {"$ref": "#/definitions/a~1b"},'
    ' "any": {}}, "required": ["const", "typed", "mixed", "typed_mixed", "pen", "ink", "short", "any"],'
    ' "additionalProperties": false}',
)
REFERRING = Tool(
    "referring",
    "",
    '{"$ref": "#/definitions/all", "definitions": {"all": {"type": "object", "properties": {"size": {"enum": [3, 4]},'
    ' "two": {"type": "array", "items": {"$ref": "#/definitions/all/properties/size"}, "minItems": 2, "maxItems": 2},'
    ' "word": {"$ref": "#/x-parts/0"}}, "required": ["size", "two", "word"], "additionalProperties": false}},'
    ' "x-parts": [{"type": "string", "maxLength": 4}]}',
)
UNBOUNDED = [{"minLength": 4, "maxLength": 2}, {"minLength": -1}, {"minLength": "3"}, {"maxLength": 1.5}]
ALL = {**KNOWING, **FORGETFUL, "No tools": NO_TOOLS, "Phi": PHI_MINI}
TAGGED = [name for name in KNOWING if KNOWING[name].format.syntax.tags]
REASONING = "Qwen 3"  # may do so first, for as long as it likes
LONGEST = 400
Form = Constraint | None
LISTED = Constraint("json_schema", '{"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2}')


def drawn(
    family: ToolFamily, tools: Sequence[Tool], choice: ToolChoice, seed: int, begun: str = "", form: Form = None
) -> list[int]:
    """An answer of tokens drawn from all that are allowed, of which one that may end it is taken at once.

    `begun`: how it begins.
    """
    tokenizer, random_ = family.tokenizer, random.Random(seed)
    constraint = tool_constraint(tokenizer, tools, choice, form)
    assert constraint
    state = state_of_answer(tokenizer, write_prompt(tokenizer, QUESTION, tools), constraint)
    tokens: list[int] = []
    for token in tokenizer.encode(begun):
        assert (mask := state.allowed()) is None or int.from_bytes(mask, "little") >> token & 1
        tokens, state = [*tokens, token], state.follow(token)
    while (mask := state.allowed()) and len(tokens) < LONGEST:
        bits = int.from_bytes(mask, "little")
        allowed = [token for token in range(bits.bit_length()) if bits >> token & 1]
        if tokenizer.eos_ids & {*allowed}:
            return tokens
        tokens.append(random_.choice(allowed) if len(tokens) < 60 else leading_on(family, tokens, allowed))
        state = state.follow(tokens[-1])
    raise AssertionError(tokenizer.decode(tokens))


def leading_on(family: ToolFamily, tokens: Sequence[int], allowed: Sequence[int]) -> int:
    """A token that comes nearer to the end of a call."""
    tokenizer = family.tokenizer
    tags = tokenizer.tool_format.syntax.tags
    pieces = {tokenizer.piece(token): token for token in allowed}
    names = ["<|end|>", '"', "}", "]"]
    if tags:
        end, text = f"{chr(10) if tags.on_lines else ''}{tags.value_close}", tokenizer.decode(tokens)
        begun = max(size for size in range(len(end)) if text.endswith(end[:size]))
        names = [end[begun:until] for until in range(len(end), begun, -1)]
    return next((pieces[name] for name in names if name in pieces), allowed[0])


@pytest.mark.parametrize("name", [name for name in ALL if name != REASONING])
def test_forced_calls_are_valid(name: str) -> None:
    family, tools = ALL[name], {tool.name: tool for tool in (*TOOLS, SIZES)}
    for seed in range(choose(2, 20)):
        tokens = drawn(family, [*tools.values()], ToolChoice("required", parallel=False), seed)
        pieces = answered(family, tokens, tools=tuple(tools.values()))
        begun = [piece for piece in pieces if isinstance(piece, CallBegun)]
        arguments = [json.loads(piece.text) for piece in pieces if isinstance(piece, CallArguments)]
        assert len(begun) == len(arguments) == 1
        for call, given in zip(begun, arguments, strict=True):
            jsonschema_rs.validate(json.loads(tools[call.name].parameters), given)


@pytest.mark.parametrize("name", [name for name in ALL if name != REASONING])
def test_names_with_colons_are_read_again(name: str) -> None:
    tool, family = Tool("srv:get", "", '{"type": "object", "properties": {}}'), ALL[name]
    pieces = answered(family, drawn(family, [tool], ToolChoice("required", tool.name), 1), tools=(tool,))
    assert [piece.name for piece in pieces if isinstance(piece, CallBegun)] == ["srv:get"]


def test_arguments_may_be_required_that_no_property_tells_of() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city", "days"]}
    tokenizer, tool = ALL["Hermes"].tokenizer, Tool("look", "", json.dumps(schema))
    constraint = tool_constraint(tokenizer, [tool], ToolChoice("required"))
    assert constraint
    assert state_of_answer(tokenizer, write_prompt(tokenizer, QUESTION, [tool]), constraint).is_possible


@pytest.mark.parametrize("name", TAGGED)
def test_arguments_between_tags_are_valid_however_their_schema_tells_of_strings(name: str) -> None:
    family = ALL[name]
    for seed, tool in itertools.product(range(choose(2, 10)), (WORDS, REFERRING)):
        pieces = answered(family, drawn(family, [tool], ToolChoice("required", tool.name), seed), tools=(tool,))
        (given,) = [json.loads(piece.text) for piece in pieces if isinstance(piece, CallArguments)]
        jsonschema_rs.validate(json.loads(tool.parameters), given)


@pytest.mark.parametrize("bounds", UNBOUNDED, ids=str)
def test_lengths_that_no_text_can_have_are_no_bounds(bounds: dict[str, Any]) -> None:
    schema = {"properties": {"note": {"type": "string", **bounds}}, "required": ["note"]}
    tool, family = Tool("note", "", json.dumps(schema)), ALL["GLM"]
    pieces = answered(family, drawn(family, [tool], ToolChoice("required"), 1), tools=(tool,))
    assert [piece.name for piece in pieces if isinstance(piece, CallBegun)] == ["note"]


@pytest.mark.parametrize("name", ALL)
def test_every_format_has_a_grammar(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that allows something with the model's own tokens; the library is stricter then than where it validates."""
    monkeypatch.setattr("engine.text.grammars.grammar.try_out", lambda *_: None)
    tokenizer = ALL[name].tokenizer
    constraint = tool_constraint(tokenizer, (*TOOLS, SIZES), ToolChoice("required"))
    assert constraint
    assert any(Grammar(constraint, tokenizer.grammar_vocabulary).root.allowed() or b"")


def test_a_tool_that_is_named_is_the_one_that_is_called() -> None:
    family = KNOWING["Hermes"]
    text = family.tokenizer.decode(drawn(family, TOOLS, ToolChoice("required", "what-time.is_it"), 1))
    assert text.count('"name": "what-time.is_it"') == text.count("<tool_call>") == 1
    with pytest.raises(InputError, match="'other'"):
        tool_constraint(family.tokenizer, TOOLS, ToolChoice("required", "other"))


def test_without_tools_there_is_none_to_call() -> None:
    for choice in (ToolChoice("required"), ToolChoice("required", "other")):
        with pytest.raises(InputError, match="there is none in the request"):
            tool_constraint(KNOWING["Hermes"].tokenizer, (), choice)


def begun_calls(family: ToolFamily, tools: Sequence[Tool]) -> list[str]:
    """Answers up to the mark of a call, by every mark that the format has."""
    constraint = tool_constraint(family.tokenizer, tools, ToolChoice())
    assert constraint
    assert constraint.marks
    before = {"anywhere": "As < you <tool like: ", "first": " \n", "recipient": "<|channel|>commentary to=functions."}
    behind = " <|constrain|>json<|message|>"
    thought = "<|channel|>analysis<|message|>to=functions.sizes<|end|><|start|>assistant"
    return [
        thought + before[mark.place] + mark.text + behind
        if mark.place == "recipient"
        else before[mark.place] + mark.text
        for mark in constraint.marks
    ]


@pytest.mark.parametrize("name", [name for name in ALL if name != REASONING])
def test_calls_that_an_answer_makes_as_it_likes_are_valid(name: str) -> None:
    family, tools = ALL[name], {tool.name: tool for tool in (*TOOLS, SIZES)}
    for seed, begun in enumerate(begun_calls(family, [*tools.values()])):
        tokens = drawn(family, [*tools.values()], ToolChoice(parallel=False), seed, begun)
        pieces = answered(family, tokens, tools=tuple(tools.values()))
        (call,) = [piece for piece in pieces if isinstance(piece, CallBegun)]
        (given,) = [json.loads(piece.text) for piece in pieces if isinstance(piece, CallArguments)]
        jsonschema_rs.validate(json.loads(tools[call.name].parameters), given)


@pytest.mark.parametrize("name", [name for name in ALL if name not in (REASONING, "Harmony")])
def test_an_answer_with_a_form_is_calls_or_of_that_form(name: str) -> None:
    family, tools = ALL[name], {tool.name: tool for tool in (*TOOLS, SIZES)}
    ways = set()
    for seed in range(choose(4, 20)):
        tokens = drawn(family, [*tools.values()], ToolChoice(parallel=False), seed, form=LISTED)
        pieces = answered(family, tokens, tools=tuple(tools.values()))
        names = [piece.name for piece in pieces if isinstance(piece, CallBegun)]
        said = "".join(piece.text for piece in pieces if isinstance(piece, Content))
        assert len(names) == 1 if not said else json.loads(said) in ([1, 1], [1, 2], [2, 1], [2, 2])
        ways.add(bool(names))
    assert len(ways) == 2, "draws of both"


def test_an_answer_in_channels_with_a_form_calls_or_is_of_that_form() -> None:
    family = ALL["Harmony"]
    said = drawn(family, TOOLS, ToolChoice(), 1, "<|channel|>final<|message|>", LISTED)
    assert json.loads(family.tokenizer.decode(said).removeprefix("final"))[0] in (1, 2)
    for begun in begun_calls(family, TOOLS):
        (_, call, _) = answered(family, drawn(family, TOOLS, ToolChoice(), 1, begun, LISTED))
        assert isinstance(call, CallBegun)


def test_a_line_end_behind_a_call_obliges_to_no_other() -> None:
    tokenizer, tool = ALL["Hermes"].tokenizer, Tool("stop", "", "")
    call = '<tool_call>\n{"name": "stop", "arguments": {}}\n</tool_call>\n'
    for choice in (ToolChoice(), ToolChoice("required")):
        constraint = tool_constraint(tokenizer, [tool], choice)
        assert constraint
        state = state_of_answer(tokenizer, write_prompt(tokenizer, QUESTION, [tool]), constraint)
        state = functools.reduce(lambda state, token: state.follow(token), tokenizer.encode(call), state)
        mask = state.allowed()
        assert mask
        assert any(int.from_bytes(mask, "little") >> token & 1 for token in tokenizer.eos_ids)


@pytest.mark.parametrize("form", [None, LISTED])
def test_an_answer_that_mentions_a_mark_is_gone_on_with_where_it_has_no_form(form: Form) -> None:
    tokenizer = ALL["Hermes"].tokenizer
    constraint = tool_constraint(tokenizer, TOOLS, ToolChoice(), form)
    assert constraint
    said = [*QUESTION, ChatMessage("assistant", "Between <tool_call> and its end")]
    if form:
        with pytest.raises(InputError, match="to be continued"):
            state_of_answer(tokenizer, write_prompt(tokenizer, said, TOOLS), constraint)
    else:
        assert state_of_answer(tokenizer, write_prompt(tokenizer, said, TOOLS), constraint).allowed() is None


def test_what_a_model_thinks_calls_nothing() -> None:
    family = ALL[REASONING]
    constraint = tool_constraint(family.tokenizer, TOOLS, ToolChoice())
    assert constraint
    state = state_of_answer(family.tokenizer, write_prompt(family.tokenizer, QUESTION, TOOLS), constraint)
    for token in family.tokenizer.encode("<think>I could <tool_call> or not.</think>\n\nWell: "):
        state = state.follow(token)
        assert state.allowed() is None
    (mark,) = family.tokenizer.encode("<tool_call>")
    assert state.follow(mark).allowed()


def test_schemas_hold_as_far_as_they_can_where_answers_call_as_they_like() -> None:
    family = ALL["Hermes"]
    parts = {"size": {"enum": [3]}, "note": {"oneOf": [{"const": "x"}, {"enum": ["x", "y"]}], "not": {"const": "z"}}}
    tool = Tool("note", "", json.dumps({"type": "object", "properties": parts, "required": ["size", "note"]}))
    text = family.tokenizer.decode(drawn(family, [tool], ToolChoice(), 1, "<tool_call>"))
    assert re.search(r'"arguments": \{"size": 3, "note": "[xy]"\}', text)


@pytest.mark.parametrize("parameters", ['{"properties": {"a": {"pattern": "(?=b)"}}}', '{"type": "owl"}'])
def test_where_no_grammar_can_be_made_of_them_calls_are_free(parameters: str) -> None:
    tokenizer, tools = ALL["Hermes"].tokenizer, [*TOOLS, Tool("odd", "", parameters)]
    assert tool_constraint(tokenizer, tools, ToolChoice()) is None
    with pytest.raises(InputError, match="cannot be used"):
        tool_constraint(tokenizer, tools, ToolChoice(), LISTED)


def test_a_grammar_that_grows_with_the_square_of_its_schema_is_not_written() -> None:
    tokenizer, each = ALL["GLM"].tokenizer, {"type": "array", "items": {"$ref": "#/properties/a0"}}
    tool = Tool("t", "", json.dumps({"properties": {f"a{index}": each for index in range(300)}}))
    with pytest.raises(InputError, match="too complex"):
        tool_constraint(tokenizer, [tool], ToolChoice("required"))
    assert tool_constraint(tokenizer, [tool], ToolChoice()) is None


def test_a_grammar_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.text.tools.grammar.PROCESSOR_SECONDS", 0.0)
    with pytest.raises(InputError, match="too complex"):
        tool_constraint(ALL["GLM"].tokenizer, TOOLS, ToolChoice("required"))
    assert tool_constraint(ALL["GLM"].tokenizer, TOOLS, ToolChoice()) is None


def test_references_and_choices_without_end_are_not_followed() -> None:
    chain = {"$ref": "#/d/0", "d": {str(index): {"$ref": f"#/d/{index + 1}", "x": index} for index in range(5000)}}
    (followed,) = schemas_of([Tool("t", "", json.dumps(chain))]).values()
    assert followed["$ref"] == f"#/d/{DEEPEST}"
    many: dict[str, Any] = {"anyOf": [{"enum": [index]} for index in range(MOST_CHOICES + 1)]}
    assert not values_of(many, {})
    assert not types(many, {})
    many["anyOf"].pop()
    assert len(values_of(many, {})) == MOST_CHOICES


def test_arguments_between_tags_that_no_schema_names_are_free() -> None:
    tool = Tool("any", "", '{"type": "object", "additionalProperties": true}')
    assert tool_constraint(ALL["GLM"].tokenizer, [tool], ToolChoice()) is None


@pytest.mark.parametrize("form", [None, LISTED])
def test_an_answer_that_calls_nothing_has_its_form(form: Form) -> None:
    assert tool_constraint(KNOWING["Hermes"].tokenizer, TOOLS, ToolChoice("none"), form) is form
    assert tool_constraint(KNOWING["Hermes"].tokenizer, (), ToolChoice(), form) is form


def test_the_template_is_asked_before_a_divider_is_made() -> None:
    """Constraints are found in a thread, dividers are made on the server's event loop."""
    tokenizer = Tokenizer(KNOWING["GLM"].library)
    tool_constraint(tokenizer, TOOLS, ToolChoice())
    assert "tool_template" in vars(tokenizer)
