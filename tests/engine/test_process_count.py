"""Tokens counted by the engine process: beside an answer that is being written, and before anything is loaded."""

from typing import Any

from engine.protocol.messages import Cancel, ChatMessage, Count, Counted, Round
from tests.engine.test_process import STORY, Child, lasting

__all__ = ["lasting"]


def until_counted(child: Child) -> list[Any]:
    events = [child.receive()]
    while not isinstance(events[-1], Counted):
        events.append(child.receive())
    return events


def test_without_a_model_nothing_is_counted(lasting: Child) -> None:
    lasting.connection.send(Count(1, STORY, ("a", "b")))
    assert until_counted(lasting)[-1] == Counted(1, 0, 0, (0, 0))


def test_an_answer_goes_on_meanwhile(lasting: Child) -> None:
    lasting.load(1)
    lasting.start_endless(2)
    lengths = []
    for request in range(3, 8):
        lasting.connection.send(Count(request, (ChatMessage("user", "word " * request),), ("word",)))
        *before, counted = until_counted(lasting)
        assert all(isinstance(event, Round) for event in before)
        assert (counted.id, counted.context_tokens > 0) == (request, True)
        lengths.append(counted.tokens)
    assert lengths == sorted(set(lengths))
    lasting.connection.send(Cancel(through=2))
    assert lasting.until_the_end(2)[-1].reason == "cancelled"


def test_what_goes_wrong_is_an_answer_too(lasting: Child) -> None:
    lasting.load(1)
    lasting.connection.send(Count(2, (ChatMessage("user", 5),), ("a",)))  # type: ignore[arg-type]
    assert until_counted(lasting)[-1] == Counted(2, 0, 0, (0,))
    lasting.connection.send(Count(3, STORY))
    assert until_counted(lasting)[-1].tokens > 0
