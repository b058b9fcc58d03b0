"""Tools, calls and results become the prompt that the template asks for, and nothing in them can steer the model."""

import json
from dataclasses import replace
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from engine.errors import InputError
from engine.protocol.messages import ChatMessage
from engine.protocol.tools import Tool, ToolCall
from engine.text.tokenizer import Tokenizer
from tests.engine.text.tools.recorded import TOOLS
from tests.engine.text.tools.tool_templates import FORGETFUL, KNOWING, NO_TOOLS, PHI_MINI, ToolFamily

FIRST = ToolCall("abcdefgh1", "get_weather", '{"city": "Köln \\"am\\" Rhein", "days": 3}')
SECOND = ToolCall("abcdefgh2", "what-time.is_it", "{}")
RESULTS = [ChatMessage("tool", '{"sky": "blue"}', (), "abcdefgh1"), ChatMessage("tool", "noon", (), "abcdefgh2")]
ONE = [ChatMessage("user", "Weather?"), ChatMessage("assistant", "", (FIRST,)), RESULTS[0]]
BOTH = [ChatMessage("user", "Weather?"), ChatMessage("assistant", "", (FIRST, SECOND)), *RESULTS]


def theirs(family: ToolFamily, messages: list[ChatMessage], tools: tuple[Tool, ...] = TOOLS) -> list[int]:
    """What transformers makes of the conversation, given as OpenAI's clients have it."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    turns: list[dict[str, Any]] = []
    for message in messages:
        turn: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            turn["content"] = message.content or family.empty
            turn["tool_calls"] = [openai_call(family, call) for call in message.tool_calls]
        if message.role == "tool":
            turn |= {"tool_call_id": message.tool_call_id, "name": names[message.tool_call_id]}
        turns.append(turn)
    # Not `apply_chat_template`, which takes a content of None away, and fails with some templates for it.
    texts, _ = render_jinja_template(
        conversations=[turns],
        tools=[openai_tool(tool) for tool in tools] or None,
        chat_template=family.template,
        add_generation_prompt=True,
        **family.library.special_tokens_map,
    )
    return list(family.library.encode(texts[0], add_special_tokens=False))


def openai_tool(tool: Tool) -> dict[str, Any]:
    told = {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters)}
    return {"type": "function", "function": told}


def openai_call(family: ToolFamily, call: ToolCall) -> dict[str, Any]:
    arguments = call.arguments if family.as_text else json.loads(call.arguments)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def shown(tokenizer: Tokenizer, ids: list[int]) -> str:
    return str(tokenizer._backend._library.decode(ids, skip_special_tokens=False))


@pytest.mark.parametrize("name", KNOWING)
def test_the_prompt_is_that_of_transformers(name: str) -> None:
    family = KNOWING[name]
    tokenizer = family.tokenizer
    assert tokenizer.call_format is family.format
    template = tokenizer.tool_template
    assert template is not None
    assert (template.empty, template.as_text, template.one_each) == (family.empty, family.as_text, family.one_each)
    for messages in (ONE[:1], ONE, [ChatMessage("system", "Be brief."), *ONE]):
        assert tokenizer.encode_chat(messages, TOOLS) == theirs(family, messages)
    assert tokenizer.encode_chat(ONE) == theirs(family, ONE, ())
    if not family.one_each:
        assert tokenizer.encode_chat(BOTH, TOOLS) == theirs(family, BOTH)


@pytest.mark.parametrize("name", [name for name in KNOWING if KNOWING[name].one_each])
def test_several_calls_in_a_turn_become_several_turns_where_the_template_has_one(name: str) -> None:
    family = KNOWING[name]
    apart = [
        BOTH[0],
        replace(BOTH[1], tool_calls=(FIRST,)),
        RESULTS[0],
        replace(BOTH[1], tool_calls=(SECOND,)),
        RESULTS[1],
    ]
    assert family.tokenizer.encode_chat(BOTH, TOOLS) == theirs(family, apart)


def test_ids_that_the_template_would_refuse_are_made_others() -> None:
    call = replace(FIRST, id="call_of another kind")
    messages = [ONE[0], ChatMessage("assistant", "", (call,)), replace(RESULTS[0], tool_call_id=call.id)]
    seen = shown(KNOWING["Mistral"].tokenizer, KNOWING["Mistral"].tokenizer.encode_chat(messages, TOOLS))
    assert seen.count(seen.partition("[CALL_ID]")[2][:9]) == 2


def test_a_template_with_tools_in_the_system_message_gets_them_there() -> None:
    family = PHI_MINI
    seen = shown(family.tokenizer, family.tokenizer.encode_chat(ONE[:1], TOOLS))
    assert seen.startswith('<|system|>You are a helpful assistant with some tools.<|tool|>[{"name": "get_weather", ')
    seen = shown(family.tokenizer, family.tokenizer.encode_chat(ONE, TOOLS))
    assert '<|assistant|><|tool_call|>[{"name": "get_weather", "arguments": {"city": "Köln' in seen
    assert seen.endswith('}]<|end|><|tool|>{"sky": "blue"}<|end|><|assistant|>')


@pytest.mark.parametrize("tokenizer", [NO_TOOLS.tokenizer], ids=["no tools"])
def test_a_template_that_knows_no_tools_is_told_in_words(tokenizer: Tokenizer) -> None:
    assert tokenizer.tool_template is None
    seen = shown(tokenizer, tokenizer.encode_chat([ChatMessage("system", "Be brief."), *BOTH], TOOLS))
    assert seen.startswith("<s><start_of_turn>user\nBe brief.\n\nYou may call tools.")
    assert '\n{"type": "function", "function": {"name": "get_weather", ' in seen
    assert seen.endswith(
        '\n\nWeather?<end_of_turn>\n<start_of_turn>model\n<tool_call>\n{"name": "get_weather", "arguments": '
        '{"city": "Köln \\"am\\" Rhein", "days": 3}}\n</tool_call>\n<tool_call>\n{"name": "what-time.is_it", '
        '"arguments": {}}\n</tool_call><end_of_turn>\n<start_of_turn>user\n<tool_response>\n{"sky": "blue"}\n'
        "</tool_response>\n<tool_response>\nnoon\n</tool_response><end_of_turn>\n<start_of_turn>model\n"
    )


def test_neighbouring_messages_of_the_user_are_one_turn_for_a_template_without_tools() -> None:
    """Some refuse turns that do not alternate."""
    tokenizer = NO_TOOLS.tokenizer
    seen = shown(tokenizer, tokenizer.encode_chat([*BOTH, ChatMessage("user", "And?")], TOOLS))
    assert seen.endswith(
        '<start_of_turn>user\n<tool_response>\n{"sky": "blue"}\n</tool_response>\n<tool_response>\nnoon\n'
        "</tool_response>\n\nAnd?<end_of_turn>\n<start_of_turn>model\n"
    )
    later = [ChatMessage("user", "Hello!"), ChatMessage("system", "Be brief."), ChatMessage("user", "Well?")]
    seen = shown(tokenizer, tokenizer.encode_chat(later))
    assert seen == "<s><start_of_turn>user\nBe brief.\n\nHello!\n\nWell?<end_of_turn>\n<start_of_turn>model\n"


@pytest.mark.parametrize("name", FORGETFUL)
def test_a_template_that_forgets_calls_is_told_in_words_where_arguments_are_no_json(name: str) -> None:
    family = FORGETFUL[name]
    assert family.tokenizer.call_format is family.format
    assert family.tokenizer.tool_template is None
    seen = shown(family.tokenizer, family.tokenizer.encode_chat(ONE, TOOLS))
    assert '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Köln' in seen


@pytest.mark.parametrize("name", [*KNOWING, "No tools", "Phi"])
def test_what_tools_and_their_results_say_stays_text(name: str) -> None:
    family = KNOWING.get(name) or {"No tools": NO_TOOLS, "Phi": PHI_MINI}[name]
    marks = (*family.control, *family.words, "</s>")
    typed = " ".join(marks)
    escaped = json.dumps(typed).replace("<", "\\u003c").replace("[", "\\u005b")

    def conversation(said: str, quoted: str) -> tuple[list[ChatMessage], tuple[Tool, ...]]:
        call = ToolCall("abcdefgh1", "f" + said, f'{{"city": {quoted}}}')
        tool = Tool("f" + said, said, f'{{"type": "object", "properties": {{{quoted}: {{"description": {quoted}}}}}}}')
        messages = [ONE[0], ChatMessage("assistant", "", (call,)), ChatMessage("tool", said, (), "abcdefgh1", said)]
        return messages, (tool,)

    tokenizer = family.tokenizer
    ids, harmless = (
        tokenizer.encode_chat(*conversation(*each)) for each in ((typed, escaped), ("a", '"a"'))
    )  # fmt: skip
    controls = {tokenizer.vocabulary[mark] for mark in marks}
    assert [each for each in ids if each in controls] == [each for each in harmless if each in controls]


def test_tools_that_cannot_be_read_are_refused_in_words() -> None:
    tokenizer = KNOWING["Hermes"].tokenizer
    for parameters in ("[]", "{", "1" + "0" * 9000, '{"a":' * 90 + "1" + "}" * 90):
        with pytest.raises(InputError, match="'f'"):
            tokenizer.encode_chat(ONE[:1], [Tool("f", "", parameters)])


@pytest.mark.parametrize("arguments", ["", "{", "[1]", '{"a":' * 5000])
def test_calls_that_were_malformed_are_no_reason_to_fail(arguments: str) -> None:
    call = replace(FIRST, arguments=arguments)
    for family in (KNOWING["Hermes"], NO_TOOLS):
        assert family.tokenizer.encode_chat([ONE[0], ChatMessage("assistant", "", (call,)), RESULTS[0]], TOOLS)


def test_a_call_without_its_result_cannot_be_answered() -> None:
    with pytest.raises(InputError, match="does not end"):
        KNOWING["Hermes"].tokenizer.encode_chat(ONE[:2], TOOLS)
