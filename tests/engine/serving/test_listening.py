"""Where a server listens, and what is told where it cannot."""

import errno
import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from engine.errors import InputError
from engine.protocol.serving import ServeOptions
from engine.serving import listening
from tests.engine.serving.stub import PATH, running, soon


@pytest.mark.parametrize(("system", "is_shared"), [("posix", True), ("nt", False)])
def test_a_port_is_taken_again_at_once_but_never_shared(
    system: str, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows the option would let a second program listen at the same port."""
    monkeypatch.setattr(listening, "os", SimpleNamespace(name=system))
    with listening._bound(socket.socket(), ("127.0.0.1", 0)) as bound:
        assert bool(bound.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)) == is_shared


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_name_that_no_computer_can_have_is_told_in_a_sentence(host: str) -> None:
    with pytest.raises(InputError, match=f"The server cannot listen at {host}:0: ") as raised:
        listening._bind(ServeOptions(host, 0, "key"))
    assert raised.value.hint == "Give an address of this computer, such as 127.0.0.1."


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EADDRINUSE, "Choose another port, or end the program that uses this one."),
        (errno.EACCES, "Choose another port, such as 8383."),
        (errno.EADDRNOTAVAIL, "Give an address of this computer, such as 127.0.0.1."),
    ],
)
def test_where_it_cannot_listen_the_hint_is_about_what_is_wrong(
    number: int, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Mock(side_effect=OSError(number, os.strerror(number))))
    with pytest.raises(InputError) as raised:
        listening._bind(ServeOptions(port=0))
    assert raised.value.hint == hint


def test_answers_under_way_end_with_the_server_and_say_so() -> None:
    with running() as server, ThreadPoolExecutor(1) as other:
        with server.http.stream("POST", PATH, json={"rounds": 1000, "stream": True}) as streamed:
            events = (line.removeprefix("data: ") for line in streamed.iter_lines() if line.startswith("data: "))
            assert json.loads(next(events)) == {"text": "word "}
            server.engine.gate.clear()
            whole = other.submit(server.anyone.post, PATH, json={}, headers=dict(server.http.headers))
            assert soon(lambda: server.desk.waiting == 1)
            server.listening.close()
            *_, last = events
        assert json.loads(last)["error"]["code"] == "server_stopped"
        refused = whole.result()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "server_stopped")
        assert soon(lambda: server.desk.waiting == 0)
