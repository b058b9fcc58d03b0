"""News of versions: what counts as news, and what a server may answer."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from app.shell.updates import Release, is_newer, newest_release, parse_release
from engine.errors import CoppiceError

PAGE = "https://coppice.example/releases/1.2.0"


@pytest.mark.parametrize(
    ("version", "than", "newer"),
    [
        ("1.2.0", "1.1.9", True),
        ("1.10", "1.9", True),
        ("1.2", "1.2.0", False),
        ("1.2.0", "1.2.0", False),
        ("0.9", "1.0.0.dev3", False),
        ("2", "1.99.99", True),
    ],
)
def test_numbers_are_compared_as_numbers(version: str, than: str, newer: bool) -> None:
    assert is_newer(version, than) is newer


def test_a_release_is_read() -> None:
    said = json.dumps({"version": "1.2.0", "page": PAGE, "notes": "Faster\n streams.", "more": 1})
    assert parse_release(said) == Release("1.2.0", PAGE, "Faster streams.")


@pytest.mark.parametrize(
    "said",
    [
        [],
        {},
        {"version": "newest", "page": PAGE},
        {"version": 2, "page": PAGE},
        {"version": "1.2.0"},
        {"version": "1.2.0", "page": "http://coppice.example"},
        {"version": "1.2.0", "page": "file:///etc/passwd"},
        {"version": "1.2.0", "page": "https://"},
    ],
)
def test_what_is_no_release_is_refused(said: object) -> None:
    with pytest.raises(ValueError, match="no "):
        parse_release(json.dumps(said))


class Answers(BaseHTTPRequestHandler):
    """Answers every request as the server was told."""

    def do_GET(self) -> None:
        status, body = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def address(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}/coppice.json"


def test_the_file_of_a_server_is_asked_for(server: ThreadingHTTPServer) -> None:
    server.answer = (200, json.dumps({"version": "9.0", "page": PAGE}).encode())  # type: ignore[attr-defined]
    assert newest_release(address(server)) == Release("9.0", PAGE)


@pytest.mark.parametrize(
    ("answer", "words"),
    [((404, b""), "answered with 404"), ((200, b"<html>"), "no news"), ((200, b"[" * 100_000), "no news")],
)
def test_any_other_answer_is_one_sentence(server: ThreadingHTTPServer, answer: tuple[int, bytes], words: str) -> None:
    server.answer = answer  # type: ignore[attr-defined]
    with pytest.raises(CoppiceError, match=words):
        newest_release(address(server))


def test_a_server_that_is_gone_is_one_sentence(server: ThreadingHTTPServer) -> None:
    gone = address(server)
    server.shutdown()
    server.server_close()
    with pytest.raises(CoppiceError, match="cannot be had"):
        newest_release(gone)
