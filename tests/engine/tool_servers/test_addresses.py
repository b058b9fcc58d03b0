"""Servers at addresses: a real one over both kinds of HTTP, and answers that nobody asked for."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from anyio.streams.memory import MemoryObjectReceiveStream

from engine.protocol.tool_servers import Broken, Listed, Report, WebServer, is_address, is_plain
from engine.tool_servers import addresses
from engine.tool_servers import connection as connection_module
from engine.tool_servers.connection import Connection
from tests.engine.served import raises
from tests.engine.tool_servers.asked import FOLDER, PATIENCE_SECONDS, called, held

Told = MemoryObjectReceiveStream[Report]


@contextmanager
def stub(way: str) -> Iterator[int]:
    """The real server at a port of this computer."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    words = [sys.executable, str(FOLDER / "stub_server.py"), way, str(port)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < deadline and not is_there(port):
                time.sleep(0.02)
            yield port
        finally:
            process.kill()


def is_there(port: int) -> bool:
    """Whether somebody listens."""
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(("way", "path"), [("http", "mcp"), ("sse", "sse")])
def test_a_real_server_over_http(way: str, path: str) -> None:
    """Of which kind it is, is found out."""

    async def ask(connection: Connection, told: Told) -> None:
        assert (await called(connection, "add", a=1, b=2)).parts == ("3",)
        assert (await called(connection, "fail")).is_error
        if way == "http":
            await called(connection, "grow")
            while "grown" not in [each.name for each in listed_of(await told.receive()).tools]:
                pass

    with stub(way) as port:
        held(WebServer(f"http://127.0.0.1:{port}/{path}"), ask)


def listed_of(report: Report) -> Listed:
    """The report, which has to be one of tools."""
    assert isinstance(report, Listed)
    return report


Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """The address of a server that answers so to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.body = self.rfile.read(int(self.headers["content-length"]))
            answer(self)

        def do_GET(self) -> None:
            answer(self)

        def do_DELETE(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()


def status(code: int, **headers: str) -> Answer:
    """An answer without content."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


def content(kind: str, body: bytes, **headers: str) -> Answer:
    """An answer with content, whatever was asked."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        for name, value in {"content-type": kind, **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def broken(to: WebServer) -> Broken:
    """What an address that gives no connection is told of."""
    told = held(to)
    assert isinstance(told, Broken), told
    return told


class OneSession:
    """A server of the older protocol in a few lines; `ended` once it has heard that its session is over."""

    def __init__(self, answers_the_end: bool) -> None:
        self.ended = threading.Event()
        self._let_go = threading.Event()
        if answers_the_end:
            self._let_go.set()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a request whose body is at hand."""
        if handler.command == "DELETE":
            self.ended.set()
            self._let_go.wait(PATIENCE_SECONDS)
            status(204)(handler)
            return
        asked = json.loads(getattr(handler, "body", b"{}"))
        capabilities = {"capabilities": {"tools": {}}, "serverInfo": {"name": "one", "version": "0"}}
        results: dict[str, Any] = {
            "initialize": {"protocolVersion": "2025-06-18", **capabilities}, "tools/list": {"tools": []},
        }  # fmt: skip
        if asked.get("method") in results:
            reply = {"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}
            content("application/json", json.dumps(reply).encode(), **{"mcp-session-id": "7"})(handler)
        else:
            status(202 if "id" not in asked and handler.command == "POST" else 405)(handler)

    def let_go(self) -> None:
        """Answer what is still open."""
        self._let_go.set()


@pytest.mark.parametrize("answers_the_end", [True, False])
def test_a_session_is_told_that_it_is_over_and_not_waited_for(
    answers_the_end: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "LEAVE_SECONDS", 5.0 if answers_the_end else 0.1)
    server = OneSession(answers_the_end)
    with answering(server.answer) as address:
        try:
            assert held(WebServer(address)) == Listed("it")
            assert server.ended.wait(PATIENCE_SECONDS)
        finally:
            server.let_go()


@pytest.mark.parametrize(
    ("code", "reason", "may_pass"),
    [
        (401, "The server asks who is there (HTTP 401).", False),
        (403, "The server asks who is there (HTTP 403).", False),
        (404, "The server knows no such address (HTTP 404).", False),
        (500, "The server refuses (HTTP 500).", True),
    ],
)
def test_a_refusal_says_what_to_do(code: int, reason: str, may_pass: bool) -> None:
    with answering(status(code)) as address:
        told = broken(WebServer(address))
    assert (told.reason, told.may_pass) == (reason, may_pass)
    assert bool(told.hint) is not may_pass


def test_headers_go_to_the_address_alone() -> None:
    asked: list[str] = []

    def elsewhere(handler: BaseHTTPRequestHandler) -> None:
        asked.append("elsewhere")
        status(200)(handler)

    def leads(to: str) -> Answer:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            asked.append(handler.headers["authorization"])
            status(307, location=to)(handler)

        return answer

    with answering(elsewhere) as other, answering(leads(other)) as address:
        told = broken(WebServer(address, {"Authorization": "Bearer secret"}))
    assert set(asked) == {"Bearer secret"}
    assert told.reason == f"The address leads to another one, '{other}'."
    assert not told.may_pass


def test_an_answer_that_has_no_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "MOST_MESSAGE_BYTES", 1 << 20)
    with answering(content("application/json", b"x" * (2 << 20))) as address:
        assert broken(WebServer(address)).reason == "It sent a message of more than 1 MiB."


@pytest.mark.parametrize(
    "answer",
    [
        content("application/json", b"\x1f\x8b", **{"content-encoding": "gzip"}),
        content("application/json", b"no JSON"),
        content("text/html", b"<html>"),
        content("text/event-stream", b"data: no JSON\n\n"),
    ],
)
def test_what_is_not_understood_ends_the_connection(answer: Answer) -> None:
    with answering(answer) as address:
        assert broken(WebServer(address)).reason


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"
    told = broken(WebServer(address))
    assert told.reason.startswith("The server cannot be reached:")
    assert told.may_pass


def test_what_others_could_read_is_not_sent_unless_a_person_agrees() -> None:
    told = broken(WebServer("http://tools.invalid/mcp", {"Authorization": "secret"}))
    assert told.reason.startswith("The address begins with http://")
    assert not told.may_pass
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(addresses, "_client", raises(OSError("it is asked")))
        told = broken(WebServer("http://tools.invalid/mcp", may_be_plain=True))
    assert "it is asked" in told.reason


@pytest.mark.parametrize(
    ("address", "is_one", "plain"),
    [
        ("https://tools.example/mcp", True, False),
        ("http://tools.example/mcp", True, True),
        ("http://localhost:8000/mcp", True, False),
        ("http://127.0.0.1/mcp", True, False),
        ("http://[::1]:3/mcp", True, False),
        ("http://127.0.0.1.example/mcp", True, True),
        ("https://name:word@tools.example/mcp", False, False),
        ("ftp://tools.example", False, False),
        ("https://", False, False),
        ("https://tools.example:x/", False, False),
        ("https://tools.example/a b", False, False),
    ],
)
def test_addresses(address: str, is_one: bool, plain: bool) -> None:
    assert is_address(address) == is_one
    if is_one:
        assert is_plain(address) == plain
