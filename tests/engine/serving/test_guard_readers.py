"""Clients that leave, and clients that do not read: the engine is free again, and memory stays small."""

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from engine.protocol.messages import Event, Failed, Queued
from engine.serving import answers
from engine.serving.guard.limits import Limits
from tests.engine.serving.stub import PATH, PATIENCE_SECONDS, Running, read_all, request, running, soon

ENDLESS = 1 << 30


def ask(**fields: object) -> bytes:
    """A request to the stub."""
    return request(json.dumps(fields).encode())


def counted(server: Running, status: int) -> int:
    """How many requests to the stub ended with this status, as the figures have it once all are over."""
    assert server.has_no_connections()
    name = f'coppice_http_requests_total{{path="{PATH}",status="{status}"}} '
    lines = server.http.get("/metrics").text.splitlines()
    return sum(int(line.removeprefix(name)) for line in lines if line.startswith(name))


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(limits=Limits(requests_per_second=1e6, unread_seconds=0.2)) as server:
        yield server


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_ends_as_soon_as_its_client_leaves(server: Running, stream: bool) -> None:
    before, left = server.engine.rounds, counted(server, 0)
    with server.connect() as bare:
        bare.sendall(ask(stream=stream, rounds=ENDLESS, text="", seconds=0.001))
        assert soon(lambda: server.engine.rounds > before)
    assert server.is_free()
    assert server.has_no_connections()
    last = server.last_visit()
    assert (last.state, last.status) == ("gone", 0)
    assert last.new_tokens > 0
    assert counted(server, last.status) == left + 1, "the figures tell the same"


def test_who_leaves_while_waiting_is_never_answered(server: Running) -> None:
    server.engine.gate.clear()
    with server.connect() as running_one:
        running_one.sendall(ask(text="first"))
        assert soon(lambda: server.engine.answered[-1:] == ["first"])
        with server.connect() as bare:
            bare.sendall(ask(text="second"))
            assert soon(lambda: server.desk.waiting == 1)
        assert soon(lambda: server.desk.waiting == 0)
        server.engine.gate.set()
        assert running_one.recv(4096).startswith(b"HTTP/1.1 200")
    assert "second" not in server.engine.answered


def test_who_never_reads_is_let_go(server: Running) -> None:
    """What the systems of both sides take in fills up first, then 64 KiB of uvicorn's; then the client has its time."""
    before = server.engine.rounds
    with server.connect(receive_bytes=4096) as bare:
        bare.sendall(ask(stream=True, rounds=ENDLESS, text="x" * 1000, times=10, seconds=0.001))
        assert soon(lambda: server.engine.rounds > before)
        assert server.is_free()
        assert server.has_no_connections()
        assert len(read_all(bare)) < 8 << 20
    assert server.visits[-1].state in ("gone", "failed")


@pytest.mark.parametrize(("name", "most", "nodes"), [("MOST_UNREAD", 50, 1), ("MOST_UNREAD_NODES", 5000, 1000)])
def test_few_rounds_wait_for_who_does_not_read(
    monkeypatch: pytest.MonkeyPatch, name: str, most: int, nodes: int
) -> None:
    monkeypatch.setattr(answers, name, most)
    patient = Limits(requests_per_second=1e6, unread_seconds=10 * PATIENCE_SECONDS)
    with running(limits=patient) as server, server.connect(receive_bytes=4096) as bare:
        bare.sendall(ask(stream=True, rounds=ENDLESS, nodes=nodes, text="x" * 10000, times=10))
        assert soon(lambda: server.engine.rounds > 0)
        assert server.is_free(), "long before the client's time is over"


def test_the_last_that_waits_says_that_there_was_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_UNREAD", 3)

    async def read() -> list[Event | None]:
        unread = answers.Unread(asyncio.get_running_loop())
        assert [unread.put(Queued(1, ahead)) for ahead in range(6)] == [True, True, True, False, False, False]
        return [await unread.get() for _ in range(4)]

    *kept, last = asyncio.run(read())
    assert kept == [Queued(1, 0), Queued(1, 1), Queued(1, 2)]
    assert isinstance(last, Failed)
    assert "does not read" in last.message


def test_nobody_is_told_where_the_server_has_ended() -> None:
    loop = asyncio.new_event_loop()
    unread = answers.Unread(loop)
    loop.close()
    assert not unread.put(Queued(1, 0))


def test_a_slow_reader_gets_everything() -> None:
    """It begins to read when the server cannot write any more."""
    body = json.dumps({"stream": True, "rounds": 400, "text": "z" * 1000, "times": 20}).encode()
    with running() as server, server.connect(receive_bytes=4096) as bare:
        bare.sendall(request(body, "Connection: close"))
        connections: set[Any] = server.listening._server.server_state.connections
        assert soon(lambda: any(each.flow and each.flow.write_paused for each in connections.copy()))
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)  # the rest need not come in drops
        received = read_all(bare)
    assert received.count(b"z") == 400 * 20000


def test_a_server_that_ends_leaves_the_engine_at_work_for_others() -> None:
    with running() as server, server.connect() as bare:
        bare.sendall(ask(rounds=ENDLESS, text="", seconds=0.001))
        assert soon(lambda: server.engine.rounds > 0)
        server.listening.close()
        assert server.is_free()
        assert server.thread.is_alive(), "though nobody is left to be told"
