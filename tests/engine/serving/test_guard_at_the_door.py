"""Who is let in: keys, the names that this computer is called by, and web pages."""

from collections.abc import Iterator

import pytest
from starlette.datastructures import Headers

from engine.protocol.serving import ServeOptions
from engine.serving.guard.auth import is_known
from engine.serving.guard.limits import Limits
from tests.engine.serving.stub import KEY, PATH, Running, running

PAGE = "https://editor.example"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(ServeOptions(port=0, api_key=KEY, origins=(PAGE,))) as server:
        yield server


@pytest.mark.parametrize(
    "headers",
    [{"x-api-key": KEY}, {"authorization": f"Bearer {KEY}"}, {"authorization": f"bearer  {KEY}", "x-api-key": "?"}],
)
def test_the_key_is_taken_as_either_api_sends_it(server: Running, headers: dict[str, str]) -> None:
    assert server.anyone.post(PATH, json={}, headers=headers).json() == {"text": "word ", "reason": "stop"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": ""},
        {"x-api-key": KEY[:-1]},
        {"x-api-key": KEY + "x"},
        {"x-api-key": "ключ".encode()},
        {"authorization": KEY},
        {"authorization": f"Basic {KEY}"},
        {"authorization": "Bearer"},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", [PATH, "/metrics", "/openapi.json", "/nowhere", "/health/"])
def test_without_the_key_nothing_is_told(server: Running, headers: dict[str, str], path: str) -> None:
    told = server.anyone.post(path, json={}, headers=headers)
    assert told.status_code == 401
    assert told.headers["www-authenticate"] == "Bearer"
    assert told.json()["error"]["code"] == "invalid_api_key"
    assert KEY not in told.text


@pytest.mark.parametrize("raw", [b"sk-\xff\xfe", "sk-voilà".encode()], ids=["no text", "ends in a space of latin-1"])
def test_a_key_is_compared_byte_by_byte(raw: bytes) -> None:
    """As the environment gives them."""
    key = raw.decode(errors="surrogateescape")
    assert is_known(Headers({"x-api-key": raw.decode("latin-1")}), key)
    assert is_known(Headers({"authorization": f"Bearer {raw.decode('latin-1')}"}), key)
    assert not is_known(Headers({"x-api-key": "sk-"}), key)


def test_health_needs_no_key(server: Running) -> None:
    assert server.anyone.get("/health").json() == {"status": "ok"}
    asked = server.anyone.head("/health")
    assert (asked.status_code, asked.content) == (200, b"")


def test_messages_are_refused_as_anthropic_does(server: Running) -> None:
    told = server.anyone.post("/v1/messages", json={}, headers={"x-api-key": "wrong"}).json()
    assert told["type"] == "error"
    assert told["error"]["type"] == "authentication_error"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8383", "[::1]", "[::1]:1"])
def test_this_computer_is_called_by_its_own_names(server: Running, host: str) -> None:
    assert server.http.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8383",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "localhost:x",
        "x@localhost",
        "",
    ],
)
def test_a_name_that_was_pointed_at_this_computer_is_refused(server: Running, host: str) -> None:
    told = server.http.get("/health", headers={"host": host})
    assert (told.status_code, told.json()["error"]["code"]) == (421, "wrong_host")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:8383", f"{PAGE}.evil", PAGE + "/"]
)
def test_a_foreign_page_is_refused_before_anything_is_computed(server: Running, origin: str) -> None:
    before = server.engine.rounds
    preflight = {"origin": origin, "access-control-request-method": "POST"}
    for told in (
        server.http.post(PATH, json={}, headers={"origin": origin, "x-api-key": KEY}),
        server.http.get("/health", headers={"origin": origin}),
        server.http.options(PATH, headers=preflight),
    ):
        assert (told.status_code, told.json()["error"]["code"]) == (403, "foreign_origin")
        assert not any(name.startswith("access-control") for name in told.headers)
    assert server.engine.rounds == before


def test_a_foreign_page_does_not_use_up_the_rate_of_this_computer() -> None:
    with running(limits=Limits(requests_per_second=1e-3, burst=2)) as server:
        page = [server.anyone.get("/health", headers={"origin": "https://evil.example"}) for _ in range(4)]
        assert [told.status_code for told in (*page, server.http.get("/health"))] == [403] * 4 + [200]


def test_a_picture_of_a_foreign_page_is_refused(server: Running) -> None:
    told = server.http.get("/health", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"})
    assert told.status_code == 403
    assert told.json()["error"]["message"].startswith("Web pages of other sites may not ask this server.")
    assert server.http.get("/health", headers={"sec-fetch-site": "none"}).status_code == 200


def test_a_page_that_was_named_may_ask(server: Running) -> None:
    told = server.http.post(PATH, json={}, headers={"origin": PAGE, "x-api-key": KEY})
    assert told.status_code == 200
    assert told.headers["access-control-allow-origin"] == PAGE
    assert told.headers["vary"] == "Origin"
    wrong = server.http.post(PATH, json={}, headers={"origin": PAGE, "x-api-key": "?"})
    assert (wrong.status_code, wrong.headers["access-control-allow-origin"]) == (401, PAGE), "the page may read why"


def test_a_browser_asks_first_without_the_key(server: Running) -> None:
    asked = {"origin": PAGE, "access-control-request-method": "POST", "access-control-request-headers": "x-api-key"}
    told = server.anyone.options(PATH, headers=asked)
    assert told.status_code == 204
    assert told.headers["access-control-allow-headers"] == "x-api-key"
    assert "access-control-allow-private-network" not in told.headers
    near = server.anyone.options(PATH, headers={**asked, "access-control-request-private-network": "true"})
    assert near.headers["access-control-allow-private-network"] == "true"


def test_every_page_may_ask_where_the_person_said_so() -> None:
    with running(ServeOptions(port=0, api_key=KEY, origins=("*",))) as server:
        told = server.http.post(
            PATH, json={}, headers={"origin": "https://any.example", "sec-fetch-site": "cross-site"}
        )
        assert (told.status_code, told.headers["access-control-allow-origin"]) == (200, "*")


def test_who_tries_keys_is_slowed_down() -> None:
    limits = Limits(requests_per_second=1e-3, burst=50, wrong_key_requests=20)
    with running(limits=limits) as server:
        tried = [server.anyone.get("/metrics", headers={"x-api-key": str(key)}) for key in range(5)]
    assert [told.status_code for told in tried] == [401, 401, 401, 429, 429]
    assert 500 < int(tried[-1].headers["retry-after"]) <= 1000
