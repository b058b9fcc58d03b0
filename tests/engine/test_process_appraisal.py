"""Estimates from the engine process: beside an answer that is being written, and before anything is loaded."""

from typing import Any

import pytest

from engine.loading import estimate
from engine.protocol.messages import Appraise, Appraised, Cancel, Finished, Load, Round
from engine.protocol.options import LoadOptions
from tests.engine.child import Child
from tests.engine.served import Served


def until_appraised(child: Child, request: int) -> list[Any]:
    events = [child.receive()]
    while not isinstance(events[-1], Appraised):
        events.append(child.receive())
    assert events[-1].id == request
    return events


def test_nothing_need_be_loaded(lasting: Child) -> None:
    lasting.connection.send(Appraise(51, LoadOptions()))
    found = until_appraised(lasting, 51)[-1]
    assert (found.verdict, found.device) == ("device", "cpu")
    assert [tier.tier for tier in found.tiers] == ["device", "ram", "ssd"]
    lasting.connection.send(Appraise(52, LoadOptions("/no/such/folder")))
    assert until_appraised(lasting, 52)[-1].verdict == "no"


def test_an_answer_goes_on_meanwhile(lasting: Child) -> None:
    lasting.load(53)
    lasting.start_endless(54)
    for request in range(55, 60):
        lasting.connection.send(Appraise(request, LoadOptions(context_tokens=10 * request)))
        assert all(isinstance(event, Round) for event in until_appraised(lasting, request)[:-1])
    lasting.connection.send(Cancel(through=54))
    ending = lasting.until_the_end(54)[-1]
    assert isinstance(ending, Finished)
    assert ending.reason == "cancelled"


def test_what_goes_wrong_is_an_answer_too(lasting: Child) -> None:
    lasting.connection.send(Appraise(61, LoadOptions(context_tokens="many")))  # type: ignore[arg-type]
    found = until_appraised(lasting, 61)[-1]
    assert found.verdict == "no"
    assert "unexpected error" in found.reason


def test_what_a_load_has_read_so_far_is_not_taken_for_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Served().process
    process._take(Load(71, LoadOptions()))  # nobody serves it
    monkeypatch.setattr(estimate, "_own_bytes", lambda: 20 << 30)
    process._appraised(Appraise(72, LoadOptions()))
    assert process._estimator
    assert process._estimator._library_bytes == estimate.LIBRARY_BYTES
