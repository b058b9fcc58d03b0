"""Search: rows told from a listing that nobody vouches for, pages, and ten thousand results."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from app.hub.client import HubClient
from app.hub.failures import HubError, Reason
from app.hub.names import named_repo
from app.hub.search import ModelRow, SearchPage, SearchQuery, SearchResults, row_of, search
from app.system.background import Stop
from engine.errors import Cancelled
from tests.app.hub.conftest import Connect
from tests.app.hub.repositories import tiny
from tests.hub import Hub, redirect, stall, status

PATIENCE_SECONDS = 30.0
LISTED: dict[str, Any] = {
    "safetensors": {"parameters": {"BF16": 1000, "F32": 10}, "total": 1010},
    "config": {"model_type": "llama"},
}


def test_a_row_says_what_the_listing_says(hub: Hub, client: HubClient, stop: Stop) -> None:
    repo = hub.add("org/tiny", tiny(), gated="auto", downloads=7, licence="mit", details=LISTED)
    (row,) = search(client, SearchQuery("tiny"), stop).rows
    assert row == ModelRow(
        repo="org/tiny",
        revision=repo.commit,
        parameters=1010,
        weight_bytes=2040,
        formats=("safetensors 16-bit",),
        licence="mit",
        gated="auto",
        model_type="llama",
        task="text-generation",
    )
    assert row.usable
    asked = hub.requests[-1]
    assert asked.server == "hub"
    assert not asked.token


def test_which_models_read_pictures(hub: Hub, client: HubClient, stop: Stop) -> None:
    sees = {"config": {"model_type": "qwen3_vl"}, "pipeline_tag": "image-text-to-text"}
    gguf = {"gguf": {"architecture": "gemma3", "total": 10}, "tags": ["gguf", "image-text-to-text"]}
    for number, details in enumerate(
        (
            sees,
            {"config": {"model_type": "gemma3"}, "tags": ["safetensors", "image-text-to-text"]},
            {"config": {"model_type": "gemma3"}, "pipeline_tag": "text-generation"},
            sees | {"config": {"model_type": "aya_vision"}},
            gguf,
        )
    ):
        hub.add(f"org/m{number}", tiny(), downloads=9 - number, details=details)
    rows = search(client, SearchQuery(), stop).rows
    assert [row.reads_pictures for row in rows] == [True, True, False, False, False]


def test_pages_follow_each_other_and_what_cannot_be_used_is_left_out(hub: Hub, client: HubClient, stop: Stop) -> None:
    for number in range(7):
        hub.add(f"org/tiny-{number}", tiny(), downloads=number)
    hub.add("org/picture", tiny(), details={"tags": ["diffusers"]})
    results, page = SearchResults(), SearchPage((), "")
    places = []
    for _ in range(3):
        page = search(client, SearchQuery(page_rows=3), stop, page.next_page)
        places.append(results.add(page))
    assert places == [range(2), range(2, 5), range(5, 7)], "the picture was the first"
    assert [row.repo for row in results.rows] == [f"org/tiny-{number}" for number in reversed(range(7))]
    assert results.next_page == ""


@pytest.mark.parametrize(
    "pasted",
    [
        "https://huggingface.co/Qwen/Qwen3-8B-GGUF",
        "https://huggingface.co/Qwen/Qwen3-8B-GGUF/",
        "https://huggingface.co/Qwen/Qwen3-8B-GGUF?show_file_info=Qwen3-8B-Q4_K_M.gguf",
        "https://huggingface.co/Qwen/Qwen3-8B-GGUF/blob/main/Qwen3-8B-Q4_K_M.gguf",
        "http://127.0.0.1:8080/Qwen/Qwen3-8B-GGUF/tree/main",
        "huggingface.co/Qwen/Qwen3-8B-GGUF",
        "hf.co/Qwen/Qwen3-8B-GGUF:Q4_K_M",
        "Qwen/Qwen3-8B-GGUF:Q4_K_M",
        "Qwen/Qwen3-8B-GGUF",
    ],
)
def test_the_address_of_a_model_finds_the_model(pasted: str) -> None:
    assert named_repo(pasted) == "Qwen/Qwen3-8B-GGUF"


@pytest.mark.parametrize(
    "typed", ["", "qwen 8b", "Qwen/", "https://huggingface.co/Qwen", "https://huggingface.co/models?search=x"]
)
def test_other_words_are_looked_for_as_they_are(typed: str) -> None:
    assert named_repo(typed) == typed


def test_a_next_page_on_another_host_gets_no_request(hub: Hub, client: HubClient, stop: Stop) -> None:
    with pytest.raises(HubError, match="another host"):
        search(client, SearchQuery(), stop, f"{hub.cdn}/api/models?cursor=2")
    assert hub.requests == []


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {},
        {"id": 7},
        {"id": "no-owner"},
        {"id": "../../etc/passwd"},
        {"id": "org/name/more"},
        {"id": "org/" + "x" * 300},
        {"id": "org/na\nme"},
    ],
)
def test_entries_without_a_usable_name_are_left_out(entry: object) -> None:
    assert row_of(entry) is None


@pytest.mark.parametrize("junk", [None, 7, -1, "x", [], {}, [[]], {"parameters": 7}, {"model_type": []}, True, 1e300])
def test_junk_in_any_field_is_nothing(junk: object) -> None:
    names = ("sha", "safetensors", "tags", "config", "gated", "cardData")
    row = row_of({"id": "org/tiny"} | dict.fromkeys(names, junk))
    assert row is not None
    assert (row.revision, row.parameters, row.formats, row.model_type) == ("", 0, (), "")


def test_text_from_strangers_is_cut_and_cleaned() -> None:
    row = row_of({"id": "org/tiny", "cardData": {"license": "a\u202eb\n" + "c" * 1000}})
    assert row is not None
    assert row.licence == "ab" + "c" * (len(row.licence) - 2)
    assert len(row.licence) <= 60
    own = row_of({"id": "org/tiny", "cardData": {"license": "other", "license_name": "llama3"}})
    assert own is not None
    assert own.licence == "llama3"


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_busy_hub_says_so_at_once(code: int, hub: Hub, client: HubClient, stop: Stop) -> None:
    hub.fail("models", status(code))
    with pytest.raises(HubError, match="busy") as caught:
        search(client, SearchQuery(), stop)
    assert caught.value.reason is Reason.BUSY


@pytest.mark.parametrize("content", [b"{}", b"nonsense", b"[" * 100_000, b"[]" * 3_000_000])
def test_an_answer_that_is_no_list_is_one_sentence(
    content: bytes, hub: Hub, client: HubClient, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.hub.answers import Answer, Catalogue

    monkeypatch.setattr(Catalogue, "answer", lambda *_: Answer(200, content))
    with pytest.raises(HubError) as caught:
        search(client, SearchQuery(), stop)
    assert caught.value.reason is Reason.UNUSABLE
    assert len(caught.value.message) < 200


def test_a_hub_that_is_gone_or_silent_is_offline(hub: Hub, client: HubClient, connect: Connect, stop: Stop) -> None:
    gone = connect(endpoint="http://127.0.0.1:9")
    with pytest.raises(HubError, match="no connection") as caught:
        search(gone, SearchQuery(), stop)
    assert caught.value.reason is Reason.OFFLINE
    hub.add("org/tiny", tiny())
    hub.fail("config.json", stall(after=3))
    with pytest.raises(HubError, match="does not answer") as caught:
        client.small_file("org/tiny", "main", "config.json", stop, 1 << 20)
    assert caught.value.reason is Reason.OFFLINE


def test_set_to_be_offline_nothing_is_asked(
    hub: Hub, client: HubClient, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="HF_HUB_OFFLINE") as caught:
        search(client, SearchQuery(), stop)
    assert caught.value.reason is Reason.OFFLINE
    assert hub.requests == []


def test_a_stopped_search_gives_nothing(hub: Hub, client: HubClient, stop: Stop) -> None:
    stop.ask()
    with pytest.raises(Cancelled):
        search(client, SearchQuery(), stop)
    assert hub.requests == []


class ToldOfReading(Stop):
    """Tells when there is a connection that it can interrupt."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = threading.Event()

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        with super().interrupting(interrupt):
            self.reading.set()
            yield


def test_a_stop_hangs_up_a_connection_that_stands_still(hub: Hub, connect: Connect) -> None:
    hub.add("org/tiny", tiny())
    hub.fail("config.json", stall(after=3))
    stop, ended, found = ToldOfReading(), threading.Event(), list[bool]()

    def ask() -> None:
        assert stop.reading.wait(PATIENCE_SECONDS)
        stop.ask()
        found.append(ended.wait(PATIENCE_SECONDS))
        hub.release()

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(Cancelled):
        connect(stall_seconds=2 * PATIENCE_SECONDS).small_file("org/tiny", "main", "config.json", stop, 1 << 20)
    ended.set()
    asking.join()
    assert found == [True], "it ended while the hub stood still"


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/config.json", "file:///etc/passwd", ""])
def test_a_redirect_that_is_not_safe_is_not_followed(target: str, hub: Hub, client: HubClient, stop: Stop) -> None:
    hub.add("org/tiny", tiny())
    hub.fail("config.json", redirect(target), times=9)
    with pytest.raises(HubError, match="sends us") as caught:
        client.small_file("org/tiny", "main", "config.json", stop, 1 << 20)
    assert caught.value.reason is Reason.UNUSABLE


def test_a_client_that_was_closed_says_so(hub: Hub, client: HubClient, stop: Stop) -> None:
    hub.add("org/tiny", tiny())
    client.small_file("org/tiny", "main", "config.json", stop, 1 << 20)
    client.close()
    with pytest.raises(HubError, match="connection broke"):
        client.small_file("org/tiny", "main", "config.json", stop, 1 << 20)


def test_ten_thousand_results_are_each_there_once() -> None:
    results = SearchResults()
    for page in range(100):
        rows = tuple(ModelRow(f"org/m{100 * page + each}") for each in range(100))
        assert results.add(SearchPage(rows, "next")) == range(100 * page, 100 * page + 100)
    assert results.add(SearchPage((ModelRow("org/x"), *results.rows[:99]))) == range(10_000, 10_001)
    assert len({row.repo for row in results.rows}) == 10_001
    results.clear()
    assert (len(results), results.next_page) == (0, "")
    assert results.add(SearchPage((ModelRow("org/x"),))) == range(1), "what was there is forgotten"


def test_the_environments_proxy_is_used(
    hub: Hub, connect: Connect, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/tiny", tiny())
    monkeypatch.setenv("HTTP_PROXY", hub.endpoint)
    (row,) = search(connect(endpoint="http://models.invalid"), SearchQuery("tiny"), stop).rows
    assert row.repo == "org/tiny"
    assert hub.requests[0].headers["host"] == "models.invalid"


@pytest.mark.parametrize("proxy", ["nonsense://x", "http://[", "http://127.0.0.1:9"])
def test_a_proxy_that_does_not_work_is_a_sentence(
    proxy: str, hub: Hub, connect: Connect, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(HubError) as caught:
        search(connect(endpoint="http://models.invalid"), SearchQuery(), stop)
    assert caught.value.reason is Reason.OFFLINE
