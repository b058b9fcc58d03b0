"""Downloads where the way to the hub leads through a proxy: one that lets us through, and one that does not."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from app.downloads.progress import State
from tests.app.downloads.conftest import Start, Waits
from tests.app.downloads.models import FILES, SHARDS, put_up
from tests.hub import Hub


class Proxy(ThreadingHTTPServer):
    """Fetches what it is asked for, unless it `refuses`; keeps the hosts."""

    daemon_threads = True
    refuses = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hosts: set[str] = set()


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        self.server.hosts.add(urlsplit(self.path).netloc)
        if self.server.refuses:
            self.send_error(407)
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() != "proxy-connection"}
        with httpx2.Client(trust_env=False) as client:
            answer = client.get(self.path, headers=headers)
        self.send_response(answer.status_code)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def proxy(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy that the environment names."""
    served = Proxy()
    thread = threading.Thread(target=served.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{served.server_port}")
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


def test_everything_goes_through_the_proxy_of_the_environment(hub: Hub, start: Start, proxy: Proxy) -> None:
    put_up(hub)
    download = start()
    download.run()
    assert download.progress.state is State.DONE
    assert proxy.hosts == {urlsplit(address).netloc for address in (hub.endpoint, hub.cdn)}
    assert len(hub.asked(SHARDS[0])) == len(hub.asked("config.json")) == 1
    assert download.progress.bytes_done == sum(map(len, FILES.values()))


def test_a_proxy_that_refuses_is_named(hub: Hub, start: Start, proxy: Proxy, waits: Waits) -> None:
    put_up(hub)
    proxy.refuses = True
    download = start()
    download.run()
    assert download.progress.state is State.FAILED
    assert download.progress.message == "The proxy asks for a name and a password."
    assert not waits.seconds
    assert not hub.requests
