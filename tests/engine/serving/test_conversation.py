"""The same conversation, told in any API, is the same to the engine."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from engine.errors import InputError
from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import COMMON
from engine.protocol.tools import ToolCall
from engine.serving.chat import turns
from engine.serving.chat.turns import Message
from engine.serving.conversation import BETWEEN, Conversation, TextPart, Told
from engine.serving.messages import blocks
from engine.serving.messages.blocks import MessageField
from engine.serving.messages.events import MessageWriter
from engine.serving.responses import input_items
from engine.serving.responses.events import ResponseWriter
from engine.serving.responses.input_items import InputItem
from engine.serving.responses.request import ResponsesFields
from engine.serving.responses.resource import begin
from engine.text.pieces import CallArguments, CallBegun, Content, Piece, Thought
from tests.campaigns.extent import choose
from tests.engine.serving.played_answers import answers, steps_of, texts

ITEMS = TypeAdapter(list[InputItem])
MESSAGES = TypeAdapter(list[MessageField])
CHAT_MESSAGES = TypeAdapter(list[Message])


def of_items(*items: object) -> tuple[ChatMessage, ...]:
    return input_items.chat_of(ITEMS.validate_python(list(items)), "", COMMON)


def of_messages(*messages: object) -> tuple[ChatMessage, ...]:
    return blocks.chat_of(MESSAGES.validate_python(list(messages)), None, COMMON)


def of_chat(*messages: object) -> tuple[ChatMessage, ...]:
    return turns.chat_of(CHAT_MESSAGES.validate_python(list(messages)), COMMON)


def says(role: str, *texts: str) -> dict[str, object]:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


@settings(deadline=None, max_examples=choose(25, 300))
@given(asked=texts, pieces=answers(), result=texts)
def test_an_answer_sent_back_is_the_same_in_both_apis(asked: str, pieces: list[Piece], result: str) -> None:
    """As clients do it: they send back what they got, with the results of the tools that it called."""
    response = ResponseWriter(begin(ResponsesFields(input=asked), "model"))
    message = MessageWriter("model", (), shows_thoughts=True)
    for step in steps_of(pieces):
        list(response.follow(step))
        list(message.follow(step))
    called = [piece.id for piece in pieces if isinstance(piece, CallBegun)]
    output = [item.model_dump() for item in response.response.output]
    results = [{"type": "function_call_output", "call_id": call, "output": result} for call in called]
    blocks_of_results = [{"type": "tool_result", "tool_use_id": call, "content": result} for call in called]
    chat = of_items({"role": "user", "content": asked}, *output, *results)
    assert chat == of_messages(
        {"role": "user", "content": asked},
        {"role": "assistant", "content": message.message.model_dump()["content"]},
        {"role": "user", "content": blocks_of_results},
    )
    assert chat[0] == ChatMessage("user", asked)
    assert [turn.tool_call_id for turn in chat if turn.role == "tool"] == called
    if any(not isinstance(piece, Thought) for piece in pieces):
        assert_same_answer(chat[1], pieces)


def assert_same_answer(turn: ChatMessage, pieces: list[Piece]) -> None:
    """All that was said and called; the text was cut by the calls."""
    answer = turn.content.partition(f"{COMMON.end}{BETWEEN}")[2] if isinstance(pieces[0], Thought) else turn.content
    said = "".join(piece.text for piece in pieces if isinstance(piece, Content))
    assert answer.replace(BETWEEN, "") == said.replace(BETWEEN, "")
    begun = [piece for piece in pieces if isinstance(piece, CallBegun)]
    for call, (place, asked) in zip(turn.tool_calls, enumerate(begun), strict=True):
        written = "".join(each.text for each in pieces if isinstance(each, CallArguments) and each.place == place)
        assert (call.id, call.name, json.loads(call.arguments)) == (asked.id, asked.name, json.loads(written))


def test_the_same_speaker_has_one_turn() -> None:
    chat = of_messages(says("user", "a", "b"), says("user", "c"), says("assistant", "d"), says("user", "e"))
    assert [(turn.role, turn.content) for turn in chat] == [("user", "a\n\nb\n\nc"), ("assistant", "d"), ("user", "e")]


def test_who_instructs_is_the_system() -> None:
    items = ITEMS.validate_python([{"role": "developer", "content": "b"}, {"role": "user", "content": "c"}])
    expected = (ChatMessage("system", "a\n\nb"), ChatMessage("user", "c"))
    assert input_items.chat_of(items, "a", COMMON) == expected
    messages = MESSAGES.validate_python([says("user", "c")])
    system = TextPart(type="text", text="a"), TextPart(type="text", text="b")
    assert blocks.chat_of(messages, list(system), COMMON) == expected
    assert blocks.chat_of(messages, "a\n\nb", COMMON) == expected


def test_reasoning_stands_before_the_answer_that_it_led_to() -> None:
    conversation = Conversation(COMMON)
    conversation.say("user", Told("2 + 2?"))
    conversation.think("\nEasy.\n")
    conversation.call(ToolCall("c", "add", "{}"))
    conversation.give_back("c", Told("4"))
    conversation.think("So it is.")
    conversation.say("assistant", Told("4"))
    conversation.think("Nothing follows from this.")
    conversation.say("user", Told("Thanks."))
    assert conversation.chat == (
        ChatMessage("user", "2 + 2?"),
        ChatMessage("assistant", "<think>\nEasy.\n</think>\n\n", (ToolCall("c", "add", "{}"),)),
        ChatMessage("tool", "4", tool_call_id="c", name="add"),
        ChatMessage("assistant", "<think>\nSo it is.\n</think>\n\n4"),
        ChatMessage("user", "Thanks."),
    )


def test_chat_completions_tell_the_same() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    told = of_chat(
        {"role": "developer", "content": "a"},
        {"role": "user", "content": "2 + "},
        {"role": "user", "content": [{"type": "text", "text": "2"}, {"type": "text", "text": "?"}]},
        {"role": "assistant", "reasoning_content": "Easy.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "4"},
        {"role": "assistant", "content": "4"},
    )
    assert told == of_items(
        {"role": "developer", "content": "a"},
        {"role": "user", "content": "2 + "},
        {"role": "user", "content": "2?"},
        {"type": "reasoning", "content": [{"text": "Easy."}]},
        {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "4"},
        {"role": "assistant", "content": "4"},
    )


def test_the_result_of_no_call_is_refused() -> None:
    with pytest.raises(InputError, match="'nobody'"):
        of_chat({"role": "tool", "tool_call_id": "nobody", "content": "4"})
    with pytest.raises(InputError, match="'nobody'"):
        of_messages({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "nobody"}]})
    with pytest.raises(InputError, match="'nobody'"):
        of_items({"type": "function_call_output", "call_id": "nobody", "output": "4"})


def test_the_model_reads_that_a_tool_failed() -> None:
    called = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "add", "input": {}}]}
    failed = {"type": "tool_result", "tool_use_id": "c", "content": "no sum", "is_error": True}
    assert of_messages(called, {"role": "user", "content": [failed]})[1].content == "Error: no sum"


@pytest.mark.parametrize("kind", ["input_audio", "file", "input_file", "document"])
def test_what_is_neither_text_nor_picture_is_refused_in_words(kind: str) -> None:
    words = "files cannot be read here"
    part = {"role": "user", "content": [{"type": kind}]}
    for conversation in (of_chat, of_messages, of_items):
        with pytest.raises(InputError, match=words):
            conversation(part)
    with pytest.raises(InputError, match=words):
        of_messages(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": kind}]}]}
        )


def test_what_is_stored_elsewhere_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="stores nothing"):
        of_items({"type": "item_reference", "id": "msg_1"})


@settings(deadline=None, max_examples=choose(25, 300))
@given(said=st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), st.text(max_size=4)), max_size=9))
def test_nothing_is_lost_and_speakers_take_turns(said: list[tuple[str, str]]) -> None:
    chat = of_messages(*({"role": role, "content": text} for role, text in said))
    assert all(one.role != next_one.role for one, next_one in itertools.pairwise(chat))
    for role in ("user", "assistant", "system"):
        parts = [text for speaker, text in said if speaker == role and text]
        turns = [turn.content for turn in chat if turn.role == role and turn.content]
        assert BETWEEN.join(turns) == BETWEEN.join(parts)
