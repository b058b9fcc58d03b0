"""What is told of requests: errors to clients, visits to the window, figures to Prometheus, all of it to OpenAPI."""

import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest
from starlette.datastructures import Headers

from engine.errors import CoppiceError, InputError, ModelError, NoModel, OutOfMemory, TooLong, UnreadableError
from engine.protocol.messages import Failed, FailureKind, Prefilled, Queued, Round, Seconds, Tree
from engine.protocol.serving import ServeOptions, Visit
from engine.serving.answers import Refused
from engine.serving.desk import Busy
from engine.serving.guard import visits
from engine.serving.guard.errors import ApiError, error_event
from engine.serving.guard.metrics import Metrics
from tests.engine.serving.stub import ERRORS, PATH, Running, running, soon


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running() as server:
        yield server


def refused(kind: FailureKind) -> Refused:
    return Refused(Failed(1, "It failed.", "Do something.", kind))


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (InputError("a", "b"), 400, "invalid_request_error", "invalid_value"),
        (ModelError("a"), 400, "invalid_request_error", "invalid_value"),
        (UnreadableError("/secret/model cannot be read."), 500, "server_error", "internal_error"),
        (TooLong("a"), 400, "invalid_request_error", "context_length_exceeded"),
        (NoModel("a"), 503, "server_error", "no_model_loaded"),
        (OutOfMemory("a"), 503, "server_error", "out_of_memory"),
        (CoppiceError("a"), 500, "server_error", "internal_error"),
        (RuntimeError("the secret of the house"), 500, "server_error", "internal_error"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
@pytest.mark.parametrize("asked", [{}, {"in_the_middle": True}, {"stream": True}], ids=str)
def test_what_the_engine_fails_with_has_its_status(
    server: Running, error: Exception, status: int, kind: str, code: str, asked: dict[str, bool]
) -> None:
    """A stream, too, as long as nothing of it was sent."""
    ERRORS["!"] = error
    told = server.http.post(PATH, json={"text": "!", **asked})
    problem = told.json()["error"]
    assert (told.status_code, problem["type"], problem["code"]) == (status, kind, code)
    assert "secret" not in told.text
    assert server.last_visit().state == "failed"
    assert server.last_visit().words


@pytest.mark.parametrize(("error", "code"), [(TooLong("a"), "context_length_exceeded"), (RuntimeError("secret"), None)])
def test_what_fails_in_the_middle_of_a_stream_is_its_last_event(
    server: Running, error: Exception, code: str | None
) -> None:
    ERRORS["!"] = error
    told = server.http.post(PATH, json={"text": "!", "stream": True, "in_the_middle": True, "rounds": 2})
    *written, last = told.text.removesuffix("\n\n").split("\n\n")
    assert (told.status_code, written) == (200, 2 * ['data: {"text":"!"}'])
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == (code or "internal_error")
    assert "secret" not in told.text


def test_the_hint_of_a_long_conversation_is_for_who_sent_it(server: Running) -> None:
    ERRORS["!"] = TooLong("The conversation has 9 tokens.", "Start a new chat.")
    told = server.http.post(PATH, json={"text": "!"}).json()["error"]["message"]
    assert told.startswith("The conversation has 9 tokens. Send less of it")
    assert "chat" not in told


def test_what_nobody_expected_is_told_without_its_details_and_logged(
    server: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    told = server.http.get(f"{PATH}/broken")
    assert (told.status_code, told.json()["error"]["code"]) == (500, "internal_error")
    assert "secret" not in told.text
    assert "RuntimeError: the secret of the house" in capsys.readouterr().err


def test_a_stream_that_breaks_has_failed_and_not_lost_its_client(server: Running) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        server.http.get(f"{PATH}/breaking")
    last = server.last_visit()
    assert (last.state, last.status, last.words) == ("failed", 0, "The server met an unexpected error.")


def test_addresses_and_methods_that_there_are_not(server: Running) -> None:
    nowhere = server.http.post("/chat/completions", json={}).json()["error"]["message"]
    assert nowhere.startswith("There is no such address here. Clients ask below /v1,")
    assert server.http.get("/v1/messages/nowhere").json()["type"] == "error"
    wrong = server.http.delete(PATH)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert wrong.json()["error"]["message"].endswith(" Ask with POST.")


@pytest.mark.parametrize("body", ["", "[]", '"text"', "null"])
def test_what_is_no_object_is_refused_as_a_whole(server: Running, body: str) -> None:
    told = server.http.post(PATH, content=body, headers={"content-type": "application/json"})
    assert (told.status_code, told.json()["error"]["param"]) == (400, None)
    assert told.json()["error"]["message"].startswith("The request is no JSON object. Send one")


def test_a_field_that_does_not_fit_is_named_and_not_sent_back(server: Running) -> None:
    error = server.http.post(PATH, json={"rounds": "secret", "text": ["secret"] * 9}).json()["error"]
    assert error["param"] == "text"
    assert "rounds: Input should be a valid integer" in error["message"]
    assert "secret" not in error["message"]


@pytest.mark.parametrize(
    "asked",
    [
        {"messages": [{"role": "secret" * 20_000, "content": "Hi"}]},
        {"messages": [{"role": "user", "content": [{"type": "secret" * 20_000}]}]},
        {"messages": [{"role": "user", "content": "Hi"}], "logit_bias": {"secret" * 20_000: 1}},
    ],
)
def test_long_types_and_names_are_cut(server: Running, asked: dict[str, Any]) -> None:
    """They may be a picture that somebody put into the wrong place; the window's log has these words, too."""
    told = server.http.post("/v1/chat/completions", json=asked)
    assert told.status_code == 400
    assert told.json()["error"]["message"].count("secret") < 20
    assert len(server.last_visit().words) <= 1000


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (refused("memory"), "overloaded_error", "out_of_memory"),
        (Busy("It failed."), "rate_limit_error", "too_many_requests"),
        (ApiError(404, "It failed."), "not_found_error", None),
    ],
)
def test_an_event_tells_of_an_error_in_the_form_of_its_stream(error: Exception, kind: str, code: str | None) -> None:
    name, data = error_event("anthropic", error).split("\n", 1)
    assert (name, json.loads(data.removeprefix("data: "))["error"]["type"]) == ("event: error", kind)
    event = error_event("openai", error)
    assert re.fullmatch(r"data: \{.*\}\n\n", event)
    problem = json.loads(event.removeprefix("data: "))["error"]
    assert (problem["code"], problem["message"][:10]) == (code, "It failed.")


def test_clients_are_told_whether_to_try_again(server: Running) -> None:
    for kind, header, value in (("memory", "x-should-retry", "false"), ("no_model", "retry-after", "10")):
        ERRORS["!"] = OutOfMemory("a", "b.") if kind == "memory" else NoModel("a", "b.")
        told = server.http.post(PATH, json={"text": "!"})
        assert told.headers[header] == value
        assert told.json()["error"]["message"] == (
            "a b." if kind == "memory" else "a Ask again once one is; /health says when."
        )


def test_the_window_is_told_of_each_visit_as_it_goes_on(server: Running) -> None:
    assert server.has_no_connections()
    server.visits.clear()
    server.engine.gate.clear()
    with server.connect() as bare:
        bare.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert bare.recv(4096)
    thread = threading.Thread(target=server.http.post, args=(PATH,), kwargs={"json": {"rounds": 3}})
    thread.start()
    assert soon(lambda: any(visit.state == "answering" for visit in server.visits))
    server.engine.gate.set()
    thread.join(60)
    last = server.last_visit()
    states = [visit.state for visit in server.visits]
    assert states[0] == "waiting"
    assert states == sorted(states, key=["waiting", "answering", "done"].index)
    assert (last.path, last.client, last.status) == (PATH, "127.0.0.1", 200)
    assert (last.prompt_tokens, last.new_tokens) == (7, 3)
    assert last.agent.startswith("python-httpx2")
    assert len({visit.number for visit in server.visits}) == 1, "who only looks whether it is there is no visit"


def test_a_visit_with_several_answers_does_not_wait_again_once_one_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "SECONDS_BETWEEN", -1)
    told: list[Visit] = []
    visit = visits.Visits(told.append).begin("127.0.0.1", PATH, Headers())
    last = Round(1, 0, Tree(b"", b"", b"", ("x",)), (0,), 0, "", 1, "word", Seconds())
    for event in (Queued(1, 2), Prefilled(1, 7, 0, 0.5), Queued(2, 3), last):
        visit.hear(event)
    assert [(each.state, each.ahead) for each in told] == [("waiting", 2), ("answering", 0), ("answering", 0)]


def test_what_a_client_calls_itself_is_shown_as_plain_and_short_text(server: Running) -> None:
    server.http.get("/v1/nowhere", headers={b"user-agent": b"<b>\x80\xa0" + b"x" * 1000})
    agent = server.last_visit().agent
    assert agent == "<b>  " + "x" * 195


def test_figures_add_up(server: Running) -> None:
    def figures() -> dict[str, float]:
        assert server.has_no_connections(), "a request is counted once it is over, which is after its client knows"
        lines = server.http.get("/metrics").text.splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}

    before = figures()
    server.http.post(PATH, json={"rounds": 3, "nodes": 5})
    server.http.get("/v1/nowhere/of/many")
    server.http.get("/openapi.json")
    after = figures()
    grown = {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}
    assert grown == {
        'coppice_http_requests_total{path="/metrics",status="200"}': 1,
        f'coppice_http_requests_total{{path="{PATH}",status="200"}}': 1,
        'coppice_http_requests_total{path="other",status="200"}': 1,
        'coppice_http_requests_total{path="other",status="404"}': 1,
        'coppice_answers_total{reason="stop"}': 1,
        "coppice_prompt_tokens_total": 7,
        "coppice_cached_tokens_total": 2,
        "coppice_written_tokens_total": 3,
        "coppice_passes_total": 3,
        "coppice_drafted_tokens_total": 15,
        "coppice_streamed_bytes_total": 64,
        "coppice_prefill_seconds_total": 0.5,
        **{f'coppice_tokens_per_pass_bucket{{le="{le}"}}': 3 for le in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, "+Inf")},
        "coppice_tokens_per_pass_sum": 3,
        "coppice_tokens_per_pass_count": 3,
    }
    assert after['coppice_model_info{target="stub",draft="none"}'] == 1


def test_figures_are_in_the_format_that_they_are_said_to_be_in(server: Running) -> None:
    told = server.http.get("/metrics")
    assert told.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    name = r"[a-z_]+"
    label = rf'{name}="(?:[^"\\\n]|\\["\\n])*"'
    sample = rf"{name}(?:\{{{label}(?:,{label})*\}})? [\d.e+-]+"
    lines = rf"# HELP {name} .+|# TYPE {name} (?:counter|gauge|histogram)|{sample}"
    assert [line for line in told.text.splitlines() if not re.fullmatch(lines, line)] == []
    assert told.text.endswith("\n")
    odd = Metrics().text(0, (("target", 'a"b\\c\nd'), ("draft", "none")))
    assert [line for line in odd.splitlines() if not re.fullmatch(lines, line)] == []


def operations(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in described["paths"].items():
        yield from ((path, operation) for operation in methods.values())


def test_the_description_knows_keys_and_errors(server: Running) -> None:
    described = server.http.get("/openapi.json").json()
    assert set(described["components"]["securitySchemes"]) == {"bearer", "x-api-key"}
    for path, operation in operations(described):
        assert "422" not in operation["responses"], path
        forms = {"/v1/messages": "AnthropicError", "/api/v": "OpenAIError", "/api/": "OllamaError"}
        forms = {"/api/version": "OllamaError", **forms}
        form = next((name for begin, name in forms.items() if path.startswith(begin)), "OpenAIError")
        schema = operation["responses"]["401"]["content"]["application/json"]["schema"]
        assert schema == {"$ref": f"#/components/schemas/{form}"}
        assert bool(operation["security"]) == (path != "/health")
    references = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(described)))
    assert references <= described["components"]["schemas"].keys()


def test_without_a_key_the_description_asks_for_none() -> None:
    with running(ServeOptions(port=0)) as server:
        described = server.anyone.get("/openapi.json").json()
        assert server.anyone.post(PATH, json={}).status_code == 200
    assert "securitySchemes" not in described["components"]
    assert not any("security" in operation for _, operation in operations(described))
