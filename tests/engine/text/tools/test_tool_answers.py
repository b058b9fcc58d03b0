"""What templates write of calls is read again from a model's tokens, whatever else the answer says."""

import json
from collections.abc import Sequence

import pytest

from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import COMMON
from engine.protocol.tools import Tool, ToolCall
from engine.text.calling import divider_for
from engine.text.pieces import AllContent, AnswerPieces, CallArguments, CallBegun, Content, Piece, Thought
from engine.text.prompt import text_of_answer, write_prompt
from engine.text.tools.character_reader import merged
from tests.engine.text.tools.recorded import TOOLS
from tests.engine.text.tools.tool_templates import FORGETFUL, KNOWING, NO_TOOLS, PHI_MINI, ToolFamily

QUESTION = [ChatMessage("user", "Weather?")]
CALLS = (
    ToolCall("abcdefgh1", "get_weather", '{"city": "Köln \\"am\\" Rhein", "days": 3}'),
    ToolCall("abcdefgh2", "what-time.is_it", "{}"),
    ToolCall("abcdefgh3", "get_weather", '{"city": "[{<", "metric": false}'),
)


def answered(family: ToolFamily, tokens: Sequence[int], tools: Sequence[Tool] = TOOLS) -> list[Piece]:
    """The pieces of an answer of these tokens."""
    tokenizer = family.tokenizer
    stream = text_of_answer(tokenizer, write_prompt(tokenizer, QUESTION, tools), ())
    pieces = AnswerPieces(tokenizer.reasoning.shown, divider_for(tokenizer, tools))
    found = [piece for token in tokens for piece in pieces.push(stream.push(token))]
    return merged([*found, *pieces.push(stream.flush()), *pieces.flush()])


def calls_in(pieces: Sequence[Piece]) -> list[tuple[str, object]]:
    names = [piece.name for piece in pieces if isinstance(piece, CallBegun)]
    return list(
        zip(names, [json.loads(piece.text) for piece in pieces if isinstance(piece, CallArguments)], strict=True)
    )


def tokens_of_answer(family: ToolFamily, calls: tuple[ToolCall, ...]) -> list[int]:
    """The answer as the template writes it in a later turn, up to the result of the first call."""
    tokenizer = family.tokenizer
    asked = tokenizer.encode_chat(QUESTION, TOOLS)
    results = [ChatMessage("tool", "RESULT", (), call.id) for call in calls]
    whole = tokenizer.encode_chat([*QUESTION, ChatMessage("assistant", "", calls), *results], TOOLS)
    same = next(at for at in range(len(asked) + 1) if asked[at:] == whole[at : len(asked)])
    assert same < len(asked)
    behind = whole[len(asked) :]
    mark = tokenizer.encode("RESULT")
    return behind[: next(at for at in range(len(behind)) if behind[at : at + len(mark)] == mark)]


@pytest.mark.parametrize("name", [name for name in KNOWING if name not in ("Kimi",)])
def test_calls_that_a_template_wrote_are_read_again(name: str) -> None:
    family = KNOWING[name]
    calls = CALLS[:1] if family.one_each else CALLS
    pieces = answered(family, tokens_of_answer(family, calls))
    assert calls_in(pieces) == [(call.name, json.loads(call.arguments)) for call in calls]


HARMONY_ANSWERS = {
    "a header that goes on": " to=functions.get_weather<|channel|>commentary json<|message|>{}",
    "in its channel": "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{}",
    "without a space": "<|channel|>commentary to=functions.get_weather<|constrain|>json<|message|>{}",
}


@pytest.mark.parametrize("text", HARMONY_ANSWERS.values(), ids=HARMONY_ANSWERS)
def test_headers_that_name_a_tool_become_calls(text: str) -> None:
    family = KNOWING["Harmony"]
    encode = family.tokenizer.encode
    assert calls_in(answered(family, encode(text))) == [("get_weather", {})]
    thought = encode("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant")
    said = encode("<|channel|>commentary<|message|>I look.<|end|><|start|>assistant")
    assert answered(family, thought + said + encode(text))[:2] == [Thought("Hm."), Content("I look.")]
    assert calls_in(answered(family, thought + said + encode(text))) == [("get_weather", {})]


def test_an_answer_without_a_header_is_still_there() -> None:
    family = KNOWING["Harmony"]
    assert answered(family, family.tokenizer.encode("Yes.")) == [Content("Yes.")]
    final = family.tokenizer.encode("<|channel|>final<|message|>Yes.<|return|>")
    assert answered(family, final) == [Content("Yes.")]


def test_without_tools_marks_are_no_text_as_ever() -> None:
    family = KNOWING["Mistral"]
    tokens = family.tokenizer.encode('Hm[TOOL_CALLS]get_weather[ARGS]{"city": "Rome"}')
    assert answered(family, tokens, ()) == [Content('Hmget_weather{"city": "Rome"}')]
    assert calls_in(answered(family, tokens)) == [("get_weather", {"city": "Rome"})]
    assert isinstance(divider_for(family.tokenizer, ()), AllContent)


def test_ids_are_the_model_s_own_or_new_ones_as_its_template_wants_them() -> None:
    def ids(name: str, text: str) -> list[str]:
        family = KNOWING[name]
        return [piece.id for piece in answered(family, family.tokenizer.encode(text)) if isinstance(piece, CallBegun)]

    section = "<|tool_call_begin|>functions.f:7<|tool_call_argument_begin|>{}<|tool_call_end|>"
    assert ids("Kimi", f"<|tool_calls_section_begin|>{section}<|tool_calls_section_end|>") == ["functions.f:7"]
    assert ids("Mistral", "[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{}") == ["abcdefghi"]
    (nine,) = ids("Mistral", "[TOOL_CALLS]f[ARGS]{}")
    assert len(nine) == 9
    assert nine.isalnum()
    one, other = ids("Hermes", 2 * '<tool_call>{"name": "f"}</tool_call>')
    assert one.startswith("call_")
    assert one != other


TOLD = {"no tools": NO_TOOLS, "Phi": PHI_MINI, **FORGETFUL}


@pytest.mark.parametrize("family", TOLD.values(), ids=TOLD)
def test_a_model_that_was_told_in_words_is_understood(family: ToolFamily) -> None:
    hermes = family.tokenizer.encode(
        'Hm. <tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
    )
    assert answered(family, hermes)[0] == Content("Hm.")
    assert calls_in(answered(family, hermes)) == [("get_weather", {"city": "Rome"})]


def test_reasoning_comes_before_calls() -> None:
    family = KNOWING["Qwen 3"]
    text = '<think>\nHm.</think>\n\n<tool_call>\n{"name": "what-time.is_it", "arguments": {}}\n</tool_call>'
    assert family.tokenizer.reasoning.shown == COMMON
    pieces = answered(family, family.tokenizer.encode(text))
    assert pieces[0] == Thought("Hm.")
    assert calls_in(pieces) == [("what-time.is_it", {})]


def test_line_ends_around_reasoning_belong_to_nothing_however_the_text_is_cut() -> None:
    text = "<think>\n\nHm.\n</think>\n\nYes.\n"
    for cut in range(len(text)):
        pieces = AnswerPieces(COMMON, AllContent())
        found = [*pieces.push(text[:cut]), *pieces.push(text[cut:]), *pieces.flush()]
        assert merged(found) == [Thought("Hm.\n"), Content("Yes.\n")]


def test_tokens_that_end_calls_end_answers() -> None:
    tokenizer = KNOWING["Harmony"].tokenizer
    assert tokenizer.vocabulary["<|call|>"] in tokenizer.eos_ids
