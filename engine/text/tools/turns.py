"""Conversations with tools made fit for a template: one that takes them in its own way, or one that takes none."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from engine.protocol.messages import ChatMessage
from engine.protocol.tools import Tool, ToolCall
from engine.text.tools.formats import HERMES
from engine.text.tools.tool_template import ToolTemplate, function_of, parsed

INSTRUCTIONS = """You may call tools. Here is what they are called and what they take:
<tools>
{tools}
</tools>
To call one, write its name and its arguments as JSON, between these marks:
<tool_call>
{{"name": "name of the tool", "arguments": {{"name of an argument": "value"}}}}
</tool_call>
Write one such block for each call and nothing behind the last one; the results come in the next message."""


def mentions_calls(messages: Iterable[ChatMessage]) -> bool:
    """Whether a tool was called, or has answered."""
    return any(message.tool_calls or message.role == "tool" for message in messages)


def fitted(messages: Sequence[ChatMessage], template: ToolTemplate, id_length: int) -> list[ChatMessage]:
    """The conversation for a template that knows tools: results with the names of their tools, and ids as it wants."""
    named = list(_named(messages))
    if id_length:
        named = [_with_ids(message, id_length) for message in named]
    if template.empty is None:
        named = [part for message in named for part in _said_apart(message)]
    return list(_one_call_each(named)) if template.one_each else named


def in_plain_words(messages: Sequence[ChatMessage], tools: Sequence[Tool]) -> list[ChatMessage]:
    """The same for a template that knows none: everything is text, in Hermes' format."""
    turns: list[ChatMessage] = []
    for are_results, run in groupby(messages, lambda message: message.role == "tool"):
        if are_results:
            turns.append(ChatMessage("user", "\n".join(_response(message) for message in run)))
        else:
            turns.extend(ChatMessage(message.role, _with_calls(message)) for message in run)
    turns = join_user_turns(turns)
    if not tools:
        return turns
    listed = "\n".join(json.dumps(function_of(tool), ensure_ascii=False) for tool in tools)
    told = INSTRUCTIONS.format(tools=listed)
    if turns and turns[0].role == "system":
        return [ChatMessage("system", f"{turns[0].content}\n\n{told}"), *turns[1:]]
    return [ChatMessage("system", told), *turns]


def join_user_turns(turns: Iterable[ChatMessage]) -> list[ChatMessage]:
    """Turns of the user that follow each other as one: many templates refuse roles that do not alternate."""
    joined: list[ChatMessage] = []
    for turn in turns:
        if turn.role == "user" and joined and joined[-1].role == "user":
            joined[-1] = ChatMessage("user", f"{joined[-1].content}\n\n{turn.content}")
        else:
            joined.append(turn)
    return joined


def texts_of(message: ChatMessage) -> Iterator[str]:
    """All that is written in a message, arguments also as they read."""
    yield from (message.content, message.tool_call_id, message.name)
    for call in message.tool_calls:
        yield from (call.id, call.name, call.arguments, json.dumps(parsed(call.arguments), ensure_ascii=False))


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every string in it changed, also the names."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key): map_strings(each, change) for key, each in value.items()}
    return [map_strings(each, change) for each in value] if isinstance(value, list) else value


def map_message(message: ChatMessage, change: Callable[[str], str]) -> ChatMessage:
    """A message with every string changed that somebody else may have written."""
    return replace(
        message,
        content=change(message.content),
        tool_calls=tuple(_map_call(call, change) for call in message.tool_calls),
        tool_call_id=change(message.tool_call_id),
        name=change(message.name),
    )


def _map_call(call: ToolCall, change: Callable[[str], str]) -> ToolCall:
    """Arguments stay as they were written where nothing in them changes; escaped characters are read before."""
    arguments = parsed(call.arguments)
    changed = map_strings(arguments, change)
    text = call.arguments
    if changed != arguments:
        text = changed if isinstance(changed, str) else json.dumps(changed, ensure_ascii=False)
    return ToolCall(change(call.id), change(call.name), text)


def _named(messages: Iterable[ChatMessage]) -> Iterator[ChatMessage]:
    names: dict[str, str] = {}
    for message in messages:
        names |= {call.id: call.name for call in message.tool_calls}
        is_unnamed = message.role == "tool" and not message.name
        yield replace(message, name=names.get(message.tool_call_id, "")) if is_unnamed else message


def _with_ids(message: ChatMessage, length: int) -> ChatMessage:
    calls = tuple(replace(call, id=_id(call.id, length)) for call in message.tool_calls)
    own = _id(message.tool_call_id, length) if message.tool_call_id else ""
    return replace(message, tool_calls=calls, tool_call_id=own)


def _id(text: str, length: int) -> str:
    """An id of this length: the text itself where it is one, else one that follows from it."""
    if len(text) == length and text.isascii() and text.isalnum():
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _said_apart(message: ChatMessage) -> Iterator[ChatMessage]:
    """What is said before calls as a turn of its own, for templates that write calls only where nothing is said."""
    if message.content and message.tool_calls:
        yield replace(message, tool_calls=())
        message = replace(message, content="")
    yield message


def _one_call_each(messages: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    """Turns of several calls as several turns, each with its result behind it."""
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        if len(message.tool_calls) < 2:
            yield message
            continue
        results = []
        while place < len(messages) and messages[place].role == "tool":
            results.append(messages[place])
            place += 1
        for count, call in enumerate(message.tool_calls):
            yield replace(message, content="" if count else message.content, tool_calls=(call,))
            yield from (result for result in results if result.tool_call_id == call.id)
        ids = {call.id for call in message.tool_calls}
        yield from (result for result in results if result.tool_call_id not in ids)


def _response(message: ChatMessage) -> str:
    return f"<tool_response>\n{message.content}\n</tool_response>"


def _with_calls(message: ChatMessage) -> str:
    return "\n".join(filter(None, (message.content, HERMES.syntax.text(message.tool_calls))))
