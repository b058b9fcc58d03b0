"""What goes wrong with engines elsewhere, and what is said of it; whatever came before stays."""

import errno
import itertools
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest
from pytestqt.qtbot import QtBot

from app.engine.remote import wire
from app.engine.remote.addresses import key_warning, may_carry_key, normalised
from app.engine.remote.event_stream import COMMENT, EventStream, SentEvent, TooLongError
from app.engine.remote.failures import is_link_down, unreachable
from engine.errors import InputError
from engine.protocol.messages import ChatMessage, Failed, Finished
from engine.protocol.options import GenerateOptions
from tests.app.remote.fake_servers import (
    DONE,
    ENDING,
    Body,
    Script,
    another,
    chunk,
    event,
    free_address,
    serving,
    sglang,
)
from tests.app.remote.listener import PATIENCE_MS, listening
from tests.hub.fixture import time_out_only_at_stalls

PATIENCE_SECONDS = PATIENCE_MS / 1000
BEGUN = chunk({"content": "Once"})


def saying(*parts: bytes) -> Script:
    """A server that says this, and ends."""
    return replace(another(), answer=lambda _body: iter(parts))


REFUSALS = [
    (401, {"error": {"message": "Invalid key"}}, {}, "does not accept the key", "input"),
    (404, {"error": {"message": "The model `demo` does not exist."}}, {}, "has no model demo", "no_model"),
    (404, {"detail": "Not Found"}, {}, "no OpenAI-compatible API", "input"),
    (400, {"error": {"message": "maximum context length is 1024 tokens"}}, {}, "too long for demo", "too_long"),
    (429, {}, {"Retry-After": "7"}, "Try again in 7 seconds.", "internal"),
    (429, {}, {"Retry-After": "soon"}, "Try again in a while.", "internal"),
    (500, {"error": "out of\nmemory"}, {}, "failed: out of memory", "internal"),
    (503, b"<html>", {}, "failed: status 503", "internal"),
    (422, {"detail": [{"msg": "temperature is too large"}]}, {}, "temperature is too large", "input"),
    (307, {}, {"Location": "http://evil.example/v1"}, "points to another address: http://evil.example/v1", "input"),
]


@pytest.mark.parametrize(("status", "body", "headers", "words", "kind"), REFUSALS)
def test_a_refusal_is_told_in_words(
    status: int, body: object, headers: dict[str, str], words: str, kind: str, qtbot: QtBot
) -> None:
    script = replace(another(), status=status, refusal=body, headers=headers)
    with serving(script) as address, listening(address, qtbot, key="secret", kind="vLLM") as engine:
        failed = engine.ask()
        assert isinstance(failed, Failed)
        assert words in f"{failed.message} {failed.hint}"
        assert (failed.kind, bool(failed.hint)) == (kind, True)


def test_a_model_that_is_a_file_is_named_without_its_folders(qtbot: QtBot) -> None:
    script = replace(another(), status=400, refusal={"error": "the context is too small"})
    with serving(script) as address, listening(address, qtbot) as engine:
        engine.engine.place = replace(engine.engine.place, model="/srv/models/demo.gguf")
        engine.ask()
        assert "too long for demo.gguf at" in engine.failure.message
        assert script.questions[0]["model"] == "/srv/models/demo.gguf"


@pytest.mark.parametrize(("status", "questions"), [(307, 1), (401, 1), (404, 1), (400, 2), (422, 2)])
def test_only_a_refusal_of_the_request_itself_is_answered_with_a_smaller_one(
    status: int, questions: int, qtbot: QtBot
) -> None:
    script = replace(another(), status=status, refusal={"error": "no"})
    with serving(script) as address, listening(address, qtbot, key="secret") as engine:
        assert isinstance(engine.ask(), Failed)
        assert len(script.questions) == questions


def test_who_does_not_listen_is_told_so(qtbot: QtBot) -> None:
    with listening(free_address(), qtbot) as engine:
        engine.engine.look_for()
        engine.wait(lambda: engine.stopped)
        assert "Nothing listens at 127.0.0.1:" in engine.stopped[0].message
        assert isinstance(engine.ask(), Failed)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "The host cluster was not found."),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "cluster cannot be reached: No route to host."),
        (TimeoutError("timed out"), "cluster does not answer."),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), "The certificate of cluster cannot be trusted"),
        (ValueError("?"), "cluster cannot be reached."),
    ],
)
def test_why_there_is_no_connection_is_told_by_what_lies_below(cause: Exception, words: str) -> None:
    error = RuntimeError("all connection attempts failed")
    error.__cause__ = cause
    assert words in unreachable("cluster", error).message


def test_a_host_that_does_not_acknowledge_is_no_silent_engine() -> None:
    given_up = RuntimeError("timed out")
    given_up.__cause__ = OSError(errno.ETIMEDOUT, "Connection timed out")
    assert is_link_down(given_up)
    assert not is_link_down(TimeoutError("timed out"))


def test_a_host_without_tls_is_told_so(qtbot: QtBot) -> None:
    with serving(another()) as address, listening(address.replace("http:", "https:"), qtbot) as engine:
        engine.engine.look_for()
        engine.wait(lambda: engine.stopped)
        assert "does not speak TLS" in engine.stopped[0].message


def test_a_host_that_is_silent_is_given_up_and_comments_are_life(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    silent, over = threading.Event(), threading.Event()
    time_out_only_at_stalls(lambda _client: silent.is_set(), monkeypatch)

    def answer(_body: Body) -> Iterator[bytes]:
        for _ in range(10):
            yield b": alive\n\n"
            over.wait(0.1)
        yield BEGUN
        silent.set()
        over.wait(PATIENCE_SECONDS)

    with serving(replace(another(), answer=answer)) as address:
        with listening(address, qtbot, silent_seconds=0.3) as engine:
            engine.ask()
            assert engine.text == "Once", "comments over a second kept it alive"
            assert "has said nothing for" in engine.failure.message
            assert engine.failure.kind == "lost"
        over.set()


@pytest.mark.parametrize(
    ("parts", "words", "kind", "text"),
    [
        ((BEGUN,), "broke", "lost", "Once"),
        ((BEGUN, event(b"{nonsense")), "cannot be read: it is damaged", "lost", "Once"),
        ((BEGUN, event(b"[1, 2]")), "it is no JSON object", "lost", "Once"),
        ((BEGUN, event({"error": {"message": "CUDA out of memory"}})), "CUDA out of memory", "lost", "Once"),
        ((event({"error": {"message": "no slot"}}),), "no slot", "internal", ""),
        ((BEGUN, event(b"[" * 3_000_000)), "cannot be read", "lost", "Once"),
        ((BEGUN, event({"coppice": {"round": {"tokens": [1]}}})), "cannot be read", "lost", "Once"),
    ],
)
def test_an_answer_that_breaks_off_keeps_its_text(
    parts: tuple[bytes, ...], words: str, kind: str, text: str, qtbot: QtBot
) -> None:
    with serving(saying(*parts)) as address, listening(address, qtbot) as engine:
        engine.ask()
        assert words in engine.failure.message
        assert (engine.failure.kind, engine.text) == (kind, text)


@pytest.mark.parametrize(
    "parts",
    [
        (chunk({"content": "Once"}, "stop"),),  # no mark behind it
        (BEGUN, DONE),
        (BEGUN, chunk({"content": 7, "reasoning": []}), chunk({}, "stop"), event({"choices": "none"}), DONE),
        (BEGUN, b"data:" + b"\xff\xfe".join([b'{"x": "', b'"}']) + b"\n\n", DONE),
        (BEGUN.replace(b"\n\n", b"\r\n\r\n"), DONE.rstrip()),
    ],
)
def test_an_answer_that_is_somehow_whole_is_taken(parts: tuple[bytes, ...], qtbot: QtBot) -> None:
    with serving(saying(*parts)) as address, listening(address, qtbot) as engine:
        assert isinstance(engine.ask(), Finished)
        assert engine.text == "Once"


@pytest.mark.parametrize(
    "parts",
    [(BEGUN, chunk({}, "stop"), DONE), (BEGUN, event({"coppice": {"finished": asdict(ENDING)}}))],
)
def test_an_answer_ends_where_the_server_says_so_and_not_when_it_hangs_up(
    parts: tuple[bytes, ...], qtbot: QtBot
) -> None:
    release = threading.Event()

    def answer(_body: Body) -> Iterator[bytes]:
        yield from parts
        while not release.wait(0.01):
            yield b": alive\n\n"

    script = replace(another(), answer=answer)
    with serving(script) as address, listening(address, qtbot) as engine:
        assert isinstance(engine.ask(), Finished)
        assert script.left.wait(PATIENCE_SECONDS), "the connection is closed"
        release.set()


def test_a_line_without_an_end_is_cut_off_soon(qtbot: QtBot) -> None:
    sent = itertools.count()

    def answer(_body: Body) -> Iterator[bytes]:
        yield BEGUN + b"data: "
        while next(sent) < 1000:  # a gigabyte
            yield b"x" * (1 << 20)

    with serving(replace(another(), answer=answer)) as address, listening(address, qtbot) as engine:
        engine.ask()
        assert "a line without an end" in engine.failure.message
        assert engine.text == "Once"
        assert next(sent) < 100


def test_a_flood_of_words_has_an_end(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.remote.answer.LONGEST_TEXT", 300_000)
    flood = chunk({"content": "word " * 200}) * 20
    script = replace(another(), answer=lambda _body: itertools.repeat(flood))
    with serving(script) as address, listening(address, qtbot) as engine:
        engine.ask()
        assert "an answer without an end" in engine.failure.message
        assert 200_000 < len(engine.text) <= 300_000
        assert script.left.wait(PATIENCE_SECONDS), "the server is told"


def test_a_listing_without_an_end_is_not_read(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_LARGEST_BODY", 1000)
    script = replace(another(), models=[{"id": f"model {number}"} for number in range(1000)])
    with serving(script) as address, listening(address, qtbot) as engine:
        engine.engine.look_for()
        engine.wait(lambda: engine.stopped)
        assert "sent what cannot be read" in engine.stopped[0].message


@pytest.mark.parametrize("status", [200, 500])
def test_a_body_that_trickles_in_is_given_up(status: int, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_WHOLE_SECONDS", -1.0)  # the first bytes are late already
    script = replace(another(), status=status, refusal={"error": "busy"})
    with serving(script) as address, listening(address, qtbot) as engine:
        if status == 200:
            engine.engine.look_for()
            engine.wait(lambda: engine.stopped)
        else:
            engine.ask()
        assert "answers too slowly" in (engine.stopped or [engine.failure])[0].message


@pytest.mark.parametrize("models", [[], "none", [{"id": 5}], [None]])
def test_a_server_without_models_is_told_so(models: list[Body], qtbot: QtBot) -> None:
    with serving(replace(another(), models=models)) as address, listening(address, qtbot) as engine:
        engine.engine.look_for()
        engine.wait(lambda: engine.stopped)
        assert engine.stopped[0].message


# ---- stop -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begins", [True, False])
def test_stop_closes_the_stream_at_once(begins: bool, qtbot: QtBot) -> None:
    cancelled, release = threading.Event(), threading.Event()
    was_cancelled = list[bool]()

    def answer(_body: Body) -> Iterator[bytes]:
        yield BEGUN if begins else b": reading\n\n"
        was_cancelled.append(cancelled.wait(PATIENCE_SECONDS))
        while not release.wait(0.01):
            yield b": alive\n\n"

    script = replace(another(), answer=answer)
    with serving(script) as address, listening(address, qtbot) as engine:
        request = engine.engine.generate((ChatMessage("user", "?"),), GenerateOptions())
        engine.wait(lambda: engine.text if begins else script.questions)
        engine.engine.cancel(request)
        assert [type(each) for each in engine.endings] == [Finished]
        cancelled.set()
        assert (engine.endings[0].id, engine.text) == (request, "Once" if begins else "")
        assert script.left.wait(PATIENCE_SECONDS), "the server is told"
        assert was_cancelled == [True], "the window did not wait for the network"
        release.set()
        engine.engine.cancel(request)
        assert len(engine.endings) == 1


def test_stop_reaches_a_server_that_has_not_begun(qtbot: QtBot) -> None:
    """It took the question, and says nothing, not even that it heard."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        address = f"http://127.0.0.1:{door.getsockname()[1]}"
        with listening(address, qtbot) as engine:
            request = engine.engine.generate((ChatMessage("user", "?"),), GenerateOptions())
            client, _ = door.accept()
            client.settimeout(PATIENCE_SECONDS)
            with client:
                client.recv(1 << 16)
                engine.engine.cancel(request)
                assert client.recv(1 << 16) in (b"",), "the connection is closed"
        assert [type(each) for each in engine.endings] == [Finished]


# ---- addresses and keys ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("localhost:8000", "http://localhost:8000"),
        (" 192.168.0.7:8000/v1/ ", "http://192.168.0.7:8000"),
        ("http://[::1]:80/v1/models", "http://[::1]:80"),
        ("api.example.org", "https://api.example.org"),
        ("https://api.example.org/openai/v1/chat/completions", "https://api.example.org/openai"),
        ("gpu-box.local", "http://gpu-box.local"),
        ("cluster", "http://cluster"),
    ],
)
def test_addresses_are_taken_as_people_write_them(written: str, address: str) -> None:
    assert normalised(written) == address


@pytest.mark.parametrize(
    "written",
    ["", "  ", "ftp://host", "http://", "http://host:99999", "a b", "http://me:pw@host", "x" * 600, "http://[::1"],
)
def test_what_is_no_address_is_refused(written: str) -> None:
    with pytest.raises(InputError):
        normalised(written)


def test_a_key_travels_encrypted_or_within_the_own_network() -> None:
    assert key_warning("https://example.org") is None
    assert key_warning("http://127.0.0.1:8000") is None
    assert "192.168.0.7" in str(key_warning("http://192.168.0.7:8000"))
    assert may_carry_key("http://box", "10.0.0.4")
    assert may_carry_key("https://example.org", "203.0.113.5")
    assert may_carry_key("http://box", "100.101.102.103"), "Tailscale's"
    assert normalised("100.101.102.103:8000") == "http://100.101.102.103:8000"
    for peer in ("93.184.216.34", "::ffff:93.184.216.34", "100.128.0.1", "224.0.0.1", "2606:4700::1"):
        assert not may_carry_key("http://example.org", peer)


def test_a_key_is_not_sent_where_everybody_could_read_it(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "may_carry_key", lambda _address, _peer: False)
    script = another()
    with serving(script) as address, listening(address, qtbot, key="secret") as engine:
        failed = engine.ask()
        assert isinstance(failed, Failed)
        assert "The key was not sent" in failed.message
        assert script.asked == [], "not a byte of the request went out"


def test_a_connection_that_is_gone_before_it_is_used_is_told_of(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_address: str, _peer: str) -> bool:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    monkeypatch.setattr(wire, "may_carry_key", gone)
    with serving(another()) as address, listening(address, qtbot, key="secret") as engine:
        engine.ask()
        assert "cannot be reached: Transport endpoint is not connected." in engine.failure.message


def test_the_key_is_shown_to_its_own_server(qtbot: QtBot) -> None:
    script = replace(sglang(), key="secret")
    with serving(script) as address, listening(address, qtbot, key="secret") as engine:
        engine.connect()
    with serving(script) as address, listening(address, qtbot, key="wrong") as engine:
        engine.engine.look_for()
        engine.wait(lambda: engine.stopped)
        assert "does not accept the key" in engine.stopped[0].message
        assert "secret" not in engine.stopped[0].message


# ---- the stream itself ----------------------------------------------------------------------------------------------

STREAM = b"event: a\ndata: 1\ndata: 2\n\n: comment\n\ndata:3\r\n\r\nid: 4\nretry: 5\n\ndata: last"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_events_are_the_same_however_they_arrive(size: int) -> None:
    stream = EventStream()
    found = [each for begin in range(0, len(STREAM), size) for each in stream.push(STREAM[begin : begin + size])]
    assert found == [SentEvent("a", b"1\n2"), SentEvent(COMMENT, b"comment"), SentEvent("", b"3")]
    assert stream.flush() == SentEvent("", b"last")


@pytest.mark.parametrize("parts", [b"data: " + b"x" * 100, b"data: xxxxxxxxxx\n" * 20, b"data:\n" * 100])
def test_an_event_without_an_end_is_refused(parts: bytes) -> None:
    stream = EventStream(longest=64)
    with pytest.raises(TooLongError):
        list(stream.push(parts))
