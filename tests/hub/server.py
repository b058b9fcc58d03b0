"""The loopback hub: two HTTP servers (the hub and its content network), their faults, and a log of every request."""

import re
import threading
from collections import deque
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.hub.answers import Answer, Catalogue, Question
from tests.hub.faults import Fault
from tests.hub.repo import Repo

_PIECE_BYTES = 1 << 16
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class Request:
    """One request as it came, and what was sent back. `server` is "hub" or "cdn"; `sent_bytes` counts the body."""

    server: str
    method: str
    path: str
    headers: dict[str, str]
    token: str
    status: int = 0
    sent_bytes: int = 0

    @property
    def first_byte(self) -> int:
        """Where the range that was asked for begins; 0 without a range."""
        match = _RANGE.fullmatch(self.headers.get("range", ""))
        return int(match[1]) if match else 0


@dataclass
class _Planned:
    pattern: str
    fault: Fault
    times: int
    server: str
    method: str

    def fits(self, question: Question, answer: Answer) -> bool:
        sends_file = answer.is_file and question.method == "GET"
        path = unquote(question.path)
        return (
            self.times > 0
            and self.server in ("", question.server)
            and self.method in ("", question.method)
            and (sends_file or not self.fault.of_body)
            and (fnmatchcase(path, self.pattern) or fnmatchcase(path, f"*/{self.pattern}"))
        )


class Hub:
    """Two servers on loopback. Everything may be changed while they run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._planned: deque[_Planned] = deque()
        self._released = threading.Event()
        self._stalled: set[Any] = set()
        self.requests: list[Request] = []
        self.catalogue = Catalogue()
        self._servers = {name: _Server(self, name) for name in ("hub", "cdn")}
        self.endpoint = self.catalogue.endpoint = self._servers["hub"].address
        self.cdn = self.catalogue.cdn = self._servers["cdn"].address

    def add(self, repo_id: str, files: dict[str, bytes], **about: Any) -> Repo:
        """Put up a model, or replace it; `about` are the other fields of `Repo`."""
        repo = Repo(repo_id, files, **about)
        self.catalogue.repos[repo_id] = repo
        return repo

    def rename(self, old: str, new: str) -> None:
        """Move a model; its old name is redirected from now on."""
        repo = self.catalogue.repos.pop(old)
        repo.id = new
        self.catalogue.repos[new] = repo
        self.catalogue.renamed[old] = new

    def issue_token(self, token: str, user: str = "ada") -> str:
        """Make a token valid; what it may see is said by each model's `access`."""
        self.catalogue.tokens[token] = user
        return token

    def fail(self, pattern: str, fault: Fault, times: int = 1, server: str = "", method: str = "") -> None:
        """Let the next `times` requests that fit go wrong. `pattern` fits a path, or its end, such as a file name."""
        with self._lock:
            self._planned.append(_Planned(pattern, fault, times, server, method))

    def heal(self) -> None:
        """Forget every planned fault."""
        with self._lock:
            self._planned.clear()

    def asked(self, name: str, method: str = "GET") -> list[Request]:
        """The requests for one file that were answered with content, in order."""
        with self._lock:
            fitting = [each for each in self.requests if each.method == method and each.path.endswith(f"/{name}")]
        return [each for each in fitting if each.status in (200, 206)]

    def environment(self, cache: Path) -> dict[str, str]:
        """What a process needs in its environment to use this hub, with `cache` as HF_HOME; empty means unset."""
        proxies = {name: "" for kind in ("http", "https", "all") for name in (f"{kind}_proxy", f"{kind.upper()}_PROXY")}
        here = {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(cache), "HF_HUB_OFFLINE": "0"}
        return proxies | here | {"HF_HUB_CACHE": "", "HUGGINGFACE_HUB_CACHE": "", "HF_TOKEN": "", "HF_TOKEN_PATH": ""}

    def release(self) -> None:
        """Let every stalled response go on, now and later."""
        self._released.set()

    def wait_released(self, client: Any) -> None:
        """Block a response to the client at this address until `release` or `close`."""
        self._stalled.add(client)
        self._released.wait()
        self._stalled.discard(client)

    def is_stalled(self, client: Any) -> bool:
        """Whether all that the client at this address gets for now has been sent."""
        return client in self._stalled

    def close(self) -> None:
        """Stop both servers; connections that are open are cut."""
        self._released.set()
        for server in self._servers.values():
            server.stop()

    def take_fault(self, question: Question, answer: Answer) -> Fault | None:
        """The fault that this request is to meet, if any; it is used up."""
        with self._lock:
            for planned in self._planned:
                if planned.fits(question, answer):
                    planned.times -= 1
                    return planned.fault
        return None

    def note(self, request: Request) -> None:
        """Add a request to the log."""
        with self._lock:
            self.requests.append(request)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, hub: Hub, name: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub, self.name = hub, name
        self.address = f"http://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), name=f"loopback {name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up in the middle is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._respond()

    def do_HEAD(self) -> None:
        self._respond()

    def _respond(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        token = headers.get("authorization", "").removeprefix("Bearer ").strip()
        question = Question(self.server.name, self.command, self.path, headers, token)
        request = Request(self.server.name, self.command, unquote(question.path), headers, token)
        answer = self.server.hub.catalogue.answer(question)
        fault = self.server.hub.take_fault(question, answer) or Fault()
        if fault.status:
            answer = Answer(fault.status, fault.body, fault.headers)
        self.server.hub.note(request)
        self._send(request, answer, fault)

    def _send(self, request: Request, answer: Answer, fault: Fault) -> None:
        body, first = answer.body, 0
        code, headers = answer.status, dict(answer.headers)
        match = _RANGE.fullmatch(request.headers.get("range", ""))
        if answer.is_file and match and not fault.ignores_range:
            first, last = int(match[1]), min(int(match[2] or len(body) - 1), len(body) - 1)
            code = 206 if first <= last else 416
            headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}" if code == 206 else f"bytes */{len(body)}"
            body = body[first : last + 1] if code == 206 else b""
        request.status = code
        self.send_response(code)
        for name, value in (headers | {"Content-Length": str(len(body) + fault.length_error)}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self._send_body(request, _corrupted(body, fault, first), fault)
        if fault.length_error or fault.drop_after is not None:
            self.close_connection = True

    def _send_body(self, request: Request, body: bytes, fault: Fault) -> None:
        ends = [each for each in (fault.drop_after, fault.stall_after) if each is not None]
        piece = fault.piece_bytes or _PIECE_BYTES
        until = min([len(body), *ends])
        for start in range(0, until, piece):
            part = body[start : min(start + piece, until)]
            request.sent_bytes += len(part)  # first: who has it may look at once
            self.wfile.write(part)
            if fault.pause_seconds:
                threading.Event().wait(fault.pause_seconds)
        if fault.stall_after is not None:
            self.server.hub.wait_released(self.client_address)
            self.wfile.write(body[until:])

    def log_message(self, format: str, *args: Any) -> None:
        """The log is `Hub.requests`."""


def _corrupted(body: bytes, fault: Fault, first: int) -> bytes:
    at = -1 if fault.corrupt_at is None else fault.corrupt_at - first
    if not 0 <= at < len(body):
        return body
    return body[:at] + bytes([body[at] ^ 0xFF]) + body[at + 1 :]
