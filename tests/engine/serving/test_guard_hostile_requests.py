"""Requests that are none: broken, contradictory, endless, enormous: one clear error for each, and little memory."""

import json
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pydantic import BaseModel, ValidationError

from engine.serving.chat.request import ChatFields
from engine.serving.completions.request import CompletionFields
from engine.serving.endpoints.tokens import DetokenizeFields
from engine.serving.guard.errors import ApiError
from engine.serving.guard.limits import SHORT_BYTES, BodyBudget, Limits
from engine.serving.llama_server.request import CompletionFields as LlamaCompletionFields
from engine.serving.llama_server.request import InfillFields
from engine.serving.messages.request import MessagesFields
from engine.serving.responses.request import ResponsesFields
from tests.campaigns.extent import choose
from tests.engine.serving.stub import PATH, Running, read_all, read_answer, request, running, soon

LIMITS = Limits(requests_per_second=1e6, body_bytes=1 << 20, all_bodies_bytes=3 << 19)
HEAD = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: sk-of-the-tests\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(limits=LIMITS) as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_is_left(server: Running) -> Iterator[None]:
    """After whatever was sent, the engine works at nothing, and the next one is answered."""
    before = server.engine.rounds
    yield
    assert server.engine.rounds == before, "nothing was computed for it"
    assert server.http.get("/health").status_code == 200


def code_of(answer: bytes) -> tuple[int, str]:
    """Status and code of the one response that these bytes are."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert answer.count(b"HTTP/1.1") == 1, answer
    return int(head.split()[1]), json.loads(body)["error"]["code"]


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100) + b"\r\n\r\n", (400, "invalid_request")),
        (b"GET\r\n\r\n", (400, "invalid_request")),
        (b"GET /health HTTP/1.1\r\n\r\n", (400, "invalid_request")),
        (b"GET /health HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n", (400, "invalid_request")),
        (b"GET /health HTTP/1.1\r\nHost: local\0host\r\n\r\n", (400, "invalid_request")),
        (b"GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n", (400, "invalid_request")),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n", (421, "wrong_host")),
        (b"GET /health\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, "invalid_request")),
        (request(b"{}", "Content-Length: 2", "Content-Length: 3"), (400, "invalid_request")),
        (request(b"{}", "Content-Length: -1"), (400, "invalid_request")),
        (request(b"{}", "Content-Length: 0x2"), (400, "invalid_request")),
        (request(b"0\r\n\r\n", "Content-Length: 5", "Transfer-Encoding: chunked"), (400, "invalid_request")),
        (request(b"0\r\n\r\n", "Transfer-Encoding: xchunked"), (400, "invalid_request")),
        (request(b"0\r\n\r\n", "Transfer-Encoding: chunked, identity"), (400, "invalid_request")),
        (request(b"zz\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), (400, "invalid_request")),
    ],
)
def test_what_is_no_http_is_refused(server: Running, sent: bytes, told: tuple[int, str]) -> None:
    assert code_of(server.say(sent.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))) == told


def test_a_broken_chunk_behind_a_wrong_key_gets_one_answer(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    """In one segment: the connection is refused before the application is asked, which would refuse the key."""
    sent = request(b"zz\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked", "Connection: close", key="wrong")
    assert code_of(server.say(sent)) == (400, "invalid_request")
    assert server.has_no_connections()
    assert not caplog.records, "a hostile client could fill the log"


@pytest.mark.parametrize("headers", ["".join(f"a{n}: b\r\n" for n in range(120)), "X: " + "y" * 20000 + "\r\n"])
def test_headers_that_are_too_many_or_too_long_are_refused(server: Running, headers: str) -> None:
    status, _ = code_of(server.say(f"{HEAD}{headers}Connection: close\r\n\r\n".encode()))
    assert status == 431


def test_headers_that_come_in_parts_are_measured_as_well(server: Running) -> None:
    with server.connect() as bare:
        for part in (HEAD, "X: " + "y" * 10000, "y" * 10000):
            bare.sendall(part.encode())
        assert code_of(read_answer(bare)) == (431, "headers_too_long")


def test_headers_without_end_are_refused(server: Running) -> None:
    with server.connect() as bare:
        send_while_taken(bare, b"GET / HTTP/1.1\r\nX: " + b"y" * (1 << 20), 1)
        answer = read_all(bare)
    assert not answer or code_of(answer) == (431, "headers_too_long"), "unless the system drops it with what was unread"


def test_a_request_behind_one_that_is_answered_is_dropped(server: Running) -> None:
    """As long as it is not read nobody would see the client leave; and it may be one that a proxy did not see."""
    server.engine.gate.clear()
    try:
        with server.connect() as bare:
            bare.sendall(request(b"{}") + request(b"{}"))
            assert read_all(bare) == b""
        assert server.has_no_connections(), "else the first may not have come to the engine yet"
        assert server.is_free()
    finally:
        server.engine.gate.set()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"text": "a"',
        b"\xff\xfe",
        '{"text": "ü"}'.encode("latin-1"),
        b'{"text": "\\ud83d"}',
        b'{"other": {"\\uDC00": 1}}',
        b'{"rounds": NaN}',
        b'{"rounds": -Infinity}',
        b'{"rounds": ' + b"9" * 5000 + b"}",
        b"[" * 100 + b"]" * 100,
        b'{"a":' * 100000 + b"1" + b"}" * 100000,
        b"[" * 500000,
        b"[" + b"{}," * 300000 + b"{}]",
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
        b"[]",
        b"7",
        b'{"rounds": "many"}',
        b'{"text": 7, "rounds": [], "times": {}, "nodes": "", "stream": "perhaps"}',
    ],
    ids=lambda body: str(body[:20]),
)
def test_json_that_cannot_be_read_is_refused(server: Running, body: bytes) -> None:
    told = server.http.post(PATH, content=body, headers={"content-type": "application/json"})
    assert told.status_code == 400
    error = told.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    assert len(told.content) < 2000


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        (CompletionFields, {"prompt": "a", "logit_bias": {f"x{n}": "" for n in range(20000)}}),
        (CompletionFields, {"prompt": [-1] * 20000}),
        (CompletionFields, {"prompt": [[-1] * 20000]}),
        (LlamaCompletionFields, {"prompt": [-1] * 20000}),
        (LlamaCompletionFields, {"prompt": [[-1] * 20000]}),
        (LlamaCompletionFields, {"prompt": "a", "logit_bias": [["a", "b"]] * 20000}),
        (InfillFields, {"input_prefix": "", "input_suffix": "", "input_extra": [0] * 1000}),
        (ChatFields, {"messages": [], "chat_template_kwargs": {f"x{n}": [] for n in range(20000)}}),
        (DetokenizeFields, {"tokens": [-1] * 20000}),
        (ChatFields, {"messages": [{"role": "user", "content": [0] * 4000}] * 5}),
        (MessagesFields, {"max_tokens": 1, "messages": [{"role": "user", "content": [0] * 4000}] * 5}),
        (MessagesFields, {"max_tokens": 1, "messages": [], "system": [0] * 16000}),
        (ResponsesFields, {"input": [{"role": "user", "content": [0] * 4000}] * 5}),
        (ResponsesFields, {"input": "a", "metadata": {f"x{n}": 0 for n in range(20000)}}),
    ],
)
def test_thousands_of_wrong_elements_are_few_errors(fields: type[BaseModel], sent: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as error:
        fields.model_validate(sent)
    assert error.value.error_count() < 10


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/jsonp"],
)
def test_what_a_form_can_send_is_not_taken_for_json(server: Running, kind: str) -> None:
    told = server.http.post(PATH, content=b'{"text": "x"}', headers={"content-type": kind})
    assert (told.status_code, told.json()["error"]["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("name", "code"),
    [("curl/8.5.0", "invalid_value"), ("Wget/1.21", "invalid_value")]
    + [(each, "unsupported_media_type") for each in ("Mozilla/5.0 curl/8", "")],
)
def test_what_curl_calls_a_form_is_read_as_json(server: Running, name: str, code: str) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded", "user-agent": name}
    told = server.http.post(PATH, content=b'{"text": 1}', headers=headers).json()["error"]
    assert (told["code"], told["param"]) == (code, "text" if code == "invalid_value" else None)
    headers["origin"] = "http://elsewhere.example"
    assert server.http.post(PATH, content=b'{"text": 1}', headers=headers).status_code == 403


def test_json_may_say_that_it_is_utf_8_and_nothing_else(server: Running) -> None:
    for charset, status in (("utf-8", 400), ('"UTF-8"', 400), ("utf-16", 415), ("latin-1", 415)):
        told = server.http.post(PATH, content=b"{", headers={"content-type": f"application/json; charset={charset}"})
        assert told.status_code == status


def test_a_long_request_is_refused_by_the_length_that_it_tells(server: Running) -> None:
    with server.connect() as bare:
        bare.sendall(request(b"", f"Content-Length: {100 << 20}"))
        assert bare.recv(4096).split()[1] == b"413", "before any of it was sent"


def test_a_hundred_megabytes_are_never_kept() -> None:
    """In chunks, whose sum nobody tells; what comes behind the answer is thrown away, and not for ever."""
    chunk, most = b"100000\r\n" + bytes(1 << 20) + b"\r\n", choose(25, 100)
    with running(limits=Limits(body_bytes=1 << 20, idle_seconds=0.3)) as server, server.connect() as bare:
        tracemalloc.start()
        try:
            bare.sendall(request(b"", "Transfer-Encoding: chunked"))
            sent = send_while_taken(bare, chunk, most)
            answer = read_all(bare)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert server.has_no_connections()
    assert answer.split()[1] == b"413" if answer else sent < most, "unless the system drops it with what was unread"
    assert peak < 12 << 20


def send_while_taken(bare: socket.socket, chunk: bytes, most: int) -> int:
    """How many of the chunks could be sent."""
    for count in range(most):
        try:
            bare.sendall(chunk)
        except OSError:
            return count
    return most


def test_bodies_of_all_together_have_bounded_room(server: Running) -> None:
    """The first holds its memory until it is whole; what is left is too little for the second."""
    half = b'{"text": "' + b"x" * (900 << 10)
    with server.connect() as first, server.connect() as second:
        first.sendall(request(half, f"Content-Length: {1 << 20}"))
        assert soon(lambda: server.body_bytes_taken() == len(half))
        second.sendall(request(half, f"Content-Length: {1 << 20}"))
        assert code_of(read_answer(second)) == (503, "too_much_at_once")
        first.sendall(b"x" * ((1 << 20) - len(half)))
        assert code_of(read_answer(first)) == (400, "invalid_json"), "now it is whole"
    assert not server.body_bytes_taken()


def test_large_pictures_leave_room_for_short_requests() -> None:
    budget = BodyBudget(10 * SHORT_BYTES, 2 * SHORT_BYTES)
    with budget.share() as large, budget.share() as another, budget.share() as short:
        large.take(SHORT_BYTES)
        large.take(7 * SHORT_BYTES)
        with pytest.raises(ApiError, match="no memory left"):
            another.take(SHORT_BYTES + 1)
        short.take(SHORT_BYTES)
        another.take(SHORT_BYTES)
        with pytest.raises(ApiError, match="no memory left"):
            short.take(1)
    assert budget.bytes_free == 10 * SHORT_BYTES


def test_who_does_not_finish_the_headers_is_let_go() -> None:
    """Whole minutes long or a drop now and then."""
    begun = (b"", b"GET /hea", HEAD.encode(), b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ")
    with running(limits=Limits(idle_seconds=0.3)) as server, ExitStack() as stack:
        bare = [stack.enter_context(server.connect()) for _ in begun]
        for each, sent in zip(bare, begun, strict=True):
            each.sendall(sent)
        dropping = stack.enter_context(server.connect())
        dropping.sendall(HEAD.encode())
        assert soon(lambda: send_while_taken(dropping, b"x: y\r\n", 1) == 0), "each drop would begin a new time"
        assert [read_all(each) for each in bare] == [b""] * len(begun)


def test_a_body_that_does_not_come_whole_is_no_longer_waited_for() -> None:
    with running(limits=Limits(body_seconds=0.3)) as server, server.connect() as half:
        half.sendall(request(b"{", "Content-Length: 2"))
        assert code_of(read_all(half)) == (408, "request_timeout")
        assert not server.body_bytes_taken()


def test_a_connection_is_kept_for_the_next_request(server: Running) -> None:
    with server.connect() as bare:
        for _ in range(2):
            bare.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_answer(bare).startswith(b"HTTP/1.1 200")


def test_a_connection_is_not_kept_for_ever() -> None:
    with running(limits=Limits(idle_seconds=0.3)) as server, server.connect() as bare:
        bare.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_all(bare).count(b"HTTP/1.1") <= 1, "it ends, without another word"


def test_who_leaves_in_the_middle_leaves_nothing(server: Running) -> None:
    for sent in (
        b"GET",
        HEAD.encode(),
        request(b"{", "Content-Length: 100"),
        request(b"5\r\n{", "Transfer-Encoding: chunked"),
    ):
        with server.connect() as bare:
            bare.sendall(sent)
    assert server.has_no_connections()


def test_who_claims_to_be_a_proxy_is_not_believed(server: Running) -> None:
    server.http.post(PATH, content=b"{", headers={"content-type": "application/json", "x-forwarded-for": "203.0.113.9"})
    assert server.last_visit().client == "127.0.0.1"
