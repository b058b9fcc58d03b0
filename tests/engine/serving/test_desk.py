"""Whose turn it is at the one engine."""

import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from engine.errors import Cancellation
from engine.observing.watcher import Watcher
from engine.protocol.messages import Event, Generate
from engine.protocol.options import GenerateOptions
from engine.serving.desk import MOST_WAITING_OF_ONE, SERVED_FROM, WINDOW, Busy, Desk, Job
from engine.serving.worker import Worker


def job(asker: str, number: int = 0, moved: list[int] | None = None) -> Job:
    heard: list[Event] = []
    places = [] if moved is None else moved
    return Job(Generate(number, (), GenerateOptions()), asker, heard.append, places.append)


def test_askers_are_answered_in_turn_and_each_ones_requests_in_order() -> None:
    desk = Desk()
    for number, asker in enumerate(["a", "a", "a", "b", WINDOW, "b"]):
        desk.put(job(asker, number))
    assert desk.waiting == 6
    taken = [desk.take().request.id for _ in range(6)]
    assert taken == [0, 3, 4, 1, 5, 2]


def test_who_comes_again_stands_behind_those_who_wait() -> None:
    desk = Desk()
    for asker in "ab":
        desk.put(job(asker))
    assert desk.take().asker == "a"
    desk.put(job("a"))
    assert [desk.take().asker, desk.take().asker] == ["b", "a"]


def test_places_are_told_as_they_change() -> None:
    desk, places = Desk(), list[int]()
    desk.put(job("a"))
    desk.put(job("a"))
    desk.put(job("b", moved=places))
    assert places == [1]
    desk.take()
    assert places == [1], "one is being answered: nothing has changed"
    desk.take()
    assert places == [1, 0], "it was b's own turn"


def test_nobody_is_told_that_nothing_has_changed() -> None:
    desk, places = Desk(), [list[int]() for _ in range(4)]
    for number, each in enumerate(places):
        desk.put(job("a", number, each))
    assert places == [[0], [1], [2], [3]]
    assert desk.take().request.id == 0
    assert places == [[0], [1], [2], [3]], "the first is being answered, as if it still stood there"


def test_what_is_forgotten_is_never_handed_out() -> None:
    desk = Desk()
    gone, other = job("a", 1), job("a", 2)
    desk.put(gone)
    desk.put(other)
    desk.forget(gone)
    desk.forget(gone)
    assert gone.is_unwanted()
    assert desk.take() is other
    assert desk.waiting == 0


def test_an_asker_withdraws_what_waits_up_to_an_id_and_nothing_of_others() -> None:
    desk, places = Desk(), list[int]()
    running = job(WINDOW, 1)
    desk.put(running)
    assert desk.take() is running
    first, second, late, others = job(WINDOW, 2), job(WINDOW, 3), job(WINDOW, 4), job("a", 1)
    for each in (first, second, late):
        desk.put(each)
    desk.put(others)
    last = job("b", 1, moved=places)
    desk.put(last)
    assert desk.withdraw(WINDOW, 3) == [first, second]
    assert desk.withdraw(WINDOW, 3) == []
    assert places == [3], "the two were not before it"
    assert desk.withdraw(WINDOW, 9) == [late]
    assert places == [3, 2]
    assert [desk.take(), desk.take()] == [others, last]


def test_too_much_is_refused_but_neither_the_window_nor_the_rest_of_a_request() -> None:
    desk = Desk()
    for _ in range(MOST_WAITING_OF_ONE):
        desk.put(job("a"))
        desk.put(job(WINDOW))
    with pytest.raises(Busy):
        desk.put(job("a"))
    desk.put(job("b"))
    desk.put(job(WINDOW))
    rest = job("a")
    rest.is_admitted = True
    desk.put(rest)


def test_an_engine_is_off_the_desk_before_it_is_closed() -> None:
    desk, seen = Desk(), list[object]()
    reading = Future[None]()
    desk.engine = SimpleNamespace(close=lambda: seen.append(desk.engine))  # type: ignore[assignment]  # as much of one
    Worker(desk, Cancellation(), Watcher(lambda _event: None), reading)._unload()
    assert seen == [None]


def test_taking_waits_for_a_job() -> None:
    desk, got = Desk(), list[Job]()
    thread = threading.Thread(target=lambda: got.append(desk.take()))
    thread.start()
    late = job("a", desk.next_id())
    desk.put(late)
    thread.join(30)
    assert got == [late]
    assert late.request.id == SERVED_FROM
