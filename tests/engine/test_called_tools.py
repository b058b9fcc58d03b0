"""The embedded pair, whose template knows no tools, is asked with some and calls them."""

import json
from collections.abc import Iterator
from dataclasses import replace

import jsonschema_rs
import pytest

from engine.engine import Engine
from engine.observing.call_events import answer_with_calls
from engine.protocol.messages import Calling, ChatMessage, Count, Event, Finished, Generate, Round
from engine.protocol.options import GenerateOptions, SamplingOptions, SpeculationOptions
from engine.protocol.tools import Tool, ToolCall, ToolChoice
from engine.text.calling import divider_for, tool_constraint
from engine.text.pieces import AnswerPieces, CallArguments, CallBegun, Piece
from engine.text.prompt import count_tokens
from engine.text.tools.character_reader import merged
from tests.campaigns.extent import choose
from tests.engine.test_constrained_answers import engine as engine  # noqa: PLC0414  # a fixture

TOOLS = (
    Tool(
        "roll", "Roll dice.", '{"type": "object", "properties": {"sides": {"enum": [4, 6, 20]}}, "required": ["sides"]}'
    ),
    Tool("name_dragon", "", '{"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}}}'),
)
ASKED = (ChatMessage("user", "Name a dragon."),)


def answer(engine: Engine, request: Generate) -> tuple[list[Piece], Finished]:
    pieces = AnswerPieces(engine.reasoning_marks, divider_for(engine.tokenizer, request.tools))
    events = list(engine.generate(1, engine.prompt_of(request), request.options))
    texts = [event.text for event in events if isinstance(event, Round | Finished)]
    assert isinstance(events[-1], Finished)
    return merged([*(piece for text in texts for piece in pieces.push(text)), *pieces.flush()]), events[-1]


def options(seed: int) -> GenerateOptions:
    speculation = SpeculationOptions(method="specexec", budget=6, depth=2)
    return GenerateOptions(SamplingOptions(temperature=1.0, seed=seed), speculation, 200)


@pytest.mark.parametrize("seed", range(choose(1, 40)))
def test_calls_that_are_required_come_and_are_valid(engine: Engine, seed: int) -> None:
    choice = ToolChoice("required", parallel=False)
    forced = replace(options(seed), constraint=tool_constraint(engine.tokenizer, TOOLS, choice))
    pieces, finished = answer(engine, Generate(1, ASKED, forced, TOOLS))
    begun, arguments = pieces
    assert finished.reason == "stop"
    assert isinstance(begun, CallBegun)
    assert isinstance(arguments, CallArguments)
    schemas = {tool.name: json.loads(tool.parameters) for tool in TOOLS}
    jsonschema_rs.validate(schemas[begun.name], json.loads(arguments.text))


def test_a_result_is_read_and_answered(engine: Engine) -> None:
    call = ChatMessage("assistant", "", (ToolCall("call_1", "roll", '{"sides": 6}'),))
    chat = (*ASKED, call, ChatMessage("tool", "4", (), "call_1"))
    pieces, finished = answer(engine, Generate(1, chat, replace(options(0), max_new_tokens=2), TOOLS))
    assert pieces
    assert finished.statistics
    assert finished.statistics.prompt_tokens > len(engine.prompt(ASKED, TOOLS).tokens)


def answered(engine: Engine, request: Generate) -> list[Event]:
    """As a window hears it."""

    def answer(held: Generate) -> Iterator[Event]:
        return engine.generate(held.id, engine.prompt_of(held), held.options)

    return list(answer_with_calls(request, engine.tokenizer, engine.reasoning_marks, answer))


def test_a_window_hears_where_an_answer_calls(engine: Engine) -> None:
    request = Generate(1, ASKED, options(0), TOOLS, tool_choice=ToolChoice("required", parallel=False))
    events = answered(engine, request)
    finished = events[-1]
    assert isinstance(finished, Finished)
    (written,) = finished.calls
    text = "".join(event.text for event in events if isinstance(event, Round | Finished))
    assert json.loads(written.call.arguments) is not None
    assert text[written.begin : written.end].startswith("<tool_call>")
    assert written.call.name in text[written.begin : written.end]
    first = next(place for place, event in enumerate(events) if isinstance(event, Calling))
    assert isinstance(events[first + 1], Round), "the window knows before it has the text"
    assert [event for event in events if isinstance(event, Calling)][-1].name == written.call.name


def test_a_continued_answer_counts_from_its_beginning(engine: Engine) -> None:
    begun = 'I roll.\n<tool_call>\n{"name": "roll", "arguments": {"sides": 6}}'
    chat = (*ASKED, ChatMessage("assistant", begun))
    events = answered(engine, Generate(1, chat, replace(options(0), max_new_tokens=1), TOOLS))
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "length"
    assert events[-1].calls == (), "it was cut off"
    assert Calling(1, len("I roll."), "roll") in events


def test_tools_count_as_part_of_the_prompt(engine: Engine) -> None:
    def tokens(tools: tuple[Tool, ...]) -> int:
        return count_tokens(engine.tokenizer, Count(1, ASKED, tools=tools), 2048, engine.write_pictures).tokens

    assert tokens(TOOLS) == len(engine.prompt(ASKED, TOOLS).tokens) > tokens(())
