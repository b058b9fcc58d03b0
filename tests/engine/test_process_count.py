"""Tokens counted by the engine process, beside an answer that is being written.

As in the application, no request has the number of another: to cancel one cancels all before it.
"""

from typing import Any

from engine.protocol.messages import Cancel, ChatMessage, Count, Counted, Generate, Round
from engine.protocol.options import GenerateOptions, SamplingOptions
from engine.protocol.tools import Tool, ToolChoice
from tests.engine.child import STORY, Child


def until_counted(child: Child) -> list[Any]:
    events = [child.receive()]
    while not isinstance(events[-1], Counted):
        events.append(child.receive())
    return events


def test_an_answer_goes_on_meanwhile(lasting: Child) -> None:
    lasting.load(101)
    lasting.start_endless(102)
    lengths = []
    for request in range(103, 108):
        lasting.connection.send(Count(request, (ChatMessage("user", "word " * (request - 100)),), ("word",)))
        *before, counted = until_counted(lasting)
        assert all(isinstance(event, Round) for event in before)
        assert (counted.id, counted.context_tokens > 0) == (request, True)
        lengths.append(counted.tokens)
    assert lengths == sorted(set(lengths))
    lasting.connection.send(Cancel(through=102))
    assert lasting.until_the_end(102)[-1].reason == "cancelled"


def test_what_goes_wrong_is_an_answer_too(lasting: Child) -> None:
    lasting.load(111)
    lasting.connection.send(Count(112, (ChatMessage("user", 5),), ("a",)))  # type: ignore[arg-type]
    assert until_counted(lasting)[-1] == Counted(112, 0, 0, (0,))
    lasting.connection.send(Count(113, STORY))
    assert until_counted(lasting)[-1].tokens > 0


def test_tools_count_and_calls_are_told_of(lasting: Child) -> None:
    lasting.load(121)
    tool = Tool("roll", "Rolls dice.", '{"type": "object", "properties": {"sides": {"enum": [4, 6]}}}')
    counts = []
    for request, tools in ((122, ()), (123, (tool,))):
        lasting.connection.send(Count(request, STORY, tools=tools))
        counts.append(until_counted(lasting)[-1].tokens)
    assert counts[0] < counts[1]
    choice = ToolChoice("required", parallel=False)
    options = GenerateOptions(SamplingOptions(), max_new_tokens=80)
    lasting.connection.send(Generate(124, STORY, options, (tool,), asker=1, tool_choice=choice))
    finished = lasting.until_the_end(124)[-1]
    assert [each.call.name for each in finished.calls] == ["roll"]
