"""Many requests: one after the other, and at once. Nothing is left of them, nobody is passed over, all are told of."""

import gc
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx2 as httpx
import psutil
import pytest
from starlette.datastructures import Headers

from engine.protocol.keeping import SERVED
from engine.serving.guard.limits import Limits
from engine.serving.guard.middleware import _asker
from engine.serving.guard.visits import Visits
from tests.campaigns.extent import choose
from tests.engine.serving.stub import KEY, PATH, PATIENCE_SECONDS, Running, read_answer, running, soon

IN_A_ROW = choose(80, 1000)
AT_ONCE = 32
LEAKED_BYTES = 8 << 20  # that a process may grow by and have no leak


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(limits=Limits(requests_per_second=1e6, burst=1e6)) as server:
        yield server


def taken_by(server: Running) -> tuple[int, int, int]:
    """Threads, open files and sockets, and bytes of memory, when nobody is connected.

    The web framework keeps a bounded pool of threads, which come and go by themselves.
    """
    assert server.is_free()
    assert server.has_no_connections()
    gc.collect()
    process = psutil.Process()
    return (
        sum(not each.name.startswith("AnyIO") for each in threading.enumerate()),
        len(process.net_connections()) + len(process.open_files()),
        process.memory_info().rss,
    )


def test_a_thousand_in_a_row_leave_nothing(server: Running) -> None:
    for kind in range(20):  # what is made once is made now
        server.http.post(PATH, json={"stream": kind % 2 == 0})
    before = taken_by(server)
    for place in range(IN_A_ROW):
        told = server.http.post(PATH, json={"text": str(place), "stream": place % 2 == 0})
        assert str(place) in told.text
    after = taken_by(server)
    assert all(now <= then for now, then in zip(after[:2], before[:2], strict=True)), (
        "what others left may end meanwhile"
    )
    assert after[2] - before[2] < LEAKED_BYTES
    assert server.desk.waiting == 0


def test_all_of_those_who_ask_at_once_get_their_own(server: Running) -> None:
    def ask(place: int) -> str:
        with httpx.Client(base_url=server.listening.address, timeout=PATIENCE_SECONDS) as client:
            headers = {"x-api-key": KEY, "user-agent": f"program {place}"}
            return str(client.post(PATH, json={"text": f"{place},", "rounds": 3}, headers=headers).json()["text"])

    before = taken_by(server)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert list(pool.map(ask, range(AT_ONCE))) == [f"{place}," * 3 for place in range(AT_ONCE)]
    after = taken_by(server)
    assert all(now <= then for now, then in zip(after[:2], before[:2], strict=True)), (
        "what others left may end meanwhile"
    )


def test_who_asks_once_does_not_wait_for_all_of_who_asks_much(server: Running) -> None:
    """Programs on one computer have one address; they are told apart by what they call themselves."""
    server.engine.answered.clear()
    server.engine.gate.clear()
    much, once = ["much"] * 12, [f"once {place}" for place in range(4)]

    def ask(name: str) -> int:
        with httpx.Client(base_url=server.listening.address, timeout=PATIENCE_SECONDS) as client:
            headers = {"x-api-key": KEY, "user-agent": name}
            return client.post(PATH, json={"text": name}, headers=headers).status_code

    with ThreadPoolExecutor(AT_ONCE) as pool:
        first = [pool.submit(ask, name) for name in much]
        assert soon(lambda: server.desk.waiting == len(much) - 1)
        then = [pool.submit(ask, name) for name in once]
        assert soon(lambda: server.desk.waiting == len(much) - 1 + len(once))
        server.engine.gate.set()
        assert Counter(each.result() for each in (*first, *then)) == {200: len(much) + len(once)}
    assert sorted(server.engine.answered[1:6]) == sorted([*once, "much"]), "each had a turn before anybody's second"
    assert server.engine.conversations == {SERVED}, "what is kept of them on disk is no chat's of the window"


def test_one_network_is_one_client_with_one_turn() -> None:
    """Who has a whole network of addresses must not wait less than who has one; programs here go by their names."""

    def name_of(client: str, agent: str = "a") -> str:
        headers = Headers({"user-agent": agent})
        return _asker(client, headers, Visits(lambda _visit: None).begin(client, PATH, headers)).name

    assert name_of("2001:db8::1", "a") == name_of("2001:db8::2", "b") != name_of("2001:db8:1::1")
    assert name_of("192.0.2.1") != name_of("192.0.2.2")
    assert name_of("127.0.0.1", "a") != name_of("127.0.0.1", "b")


def test_aborts_of_many_are_all_heard(server: Running) -> None:
    server.engine.gate.clear()
    leaving = ExitStack()
    bare = [leaving.enter_context(server.connect()) for _ in range(choose(8, AT_ONCE))]
    body = b'{"rounds": 1000000, "seconds": 0.001}'
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nx-api-key: {KEY}\r\nContent-Type: application/json\r\n"
    with leaving:
        for each in bare:
            each.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert soon(lambda: server.desk.waiting == len(bare) - 1)
        server.engine.gate.set()
    assert soon(lambda: server.desk.waiting == 0)
    assert server.is_free()
    assert server.has_no_connections()
    states = {visit.number: visit.state for visit in server.visits}  # of each the last that was told
    assert {state for _, state in sorted(states.items())[-len(bare) :]} == {"gone"}


def test_more_connections_than_the_server_keeps_are_refused() -> None:
    with running(limits=Limits(connections_of_one=3)) as server:
        with ExitStack() as kept:
            for _ in range(3):
                kept.enter_context(server.connect())
            assert soon(lambda: len(server.listening._server.server_state.connections) == 3)
            with server.connect() as one_more:
                told = read_answer(one_more)
        assert told.split()[1] == b"503"
        assert b"too_many_connections" in told
        assert server.has_no_connections()
        assert server.http.get("/health").status_code == 200


def test_too_many_requests_are_told_when_to_come_again() -> None:
    with running(limits=Limits(requests_per_second=1e-3, burst=4)) as server:
        told = [server.http.get("/health") for _ in range(6)]
    assert [each.status_code for each in told] == [200] * 4 + [429] * 2
    assert 500 < int(told[-1].headers["retry-after"]) <= 1000
