"""The loopback hub: the real hub client is content with it, and its faults happen as they were planned."""

import hashlib
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

from tests.hub import Hub, corrupt, drop, no_range, stall, status, wrong_length

WEIGHTS = bytes(range(256)) * 40
FILES = {"config.json": b'{"model_type": "llama"}', "model.safetensors": WEIGHTS, "sub/tokenizer.json": b"{}"}


@pytest.fixture
def address(hub: Hub) -> str:
    """Where the weights of a model lie."""
    hub.add("org/tiny", FILES)
    return f"{hub.endpoint}/org/tiny/resolve/main/model.safetensors"


def get(url: str, **headers: str) -> httpx2.Response:
    """A request that follows redirects."""
    with httpx2.Client(follow_redirects=True, trust_env=False) as client:
        return client.get(url, headers=headers)


def test_the_real_client_describes_and_downloads_a_model(hub: Hub) -> None:
    repo = hub.add("org/tiny", FILES, licence="mit")
    info = HfApi().model_info("org/tiny", files_metadata=True)
    assert info.sha == repo.commit
    sizes = {each.rfilename: (each.size, each.lfs.sha256 if each.lfs else None) for each in info.siblings or []}
    assert sizes["model.safetensors"] == (len(WEIGHTS), hashlib.sha256(WEIGHTS).hexdigest())
    assert sizes["config.json"] == (len(FILES["config.json"]), None)
    folder = snapshot_download("org/tiny")
    for name, content in FILES.items():
        assert Path(folder, name).read_bytes() == content
    assert [each.server for each in hub.asked("model.safetensors")] == ["cdn"]


def test_search_filters_and_pages(hub: Hub) -> None:
    for number in range(7):
        hub.add(f"org/tiny-{number}", FILES, downloads=number)
    hub.add("other/large", FILES)
    found = [model.id for model in HfApi().list_models(search="tiny", sort="downloads", limit=5)]
    assert found == ["org/tiny-6", "org/tiny-5", "org/tiny-4", "org/tiny-3", "org/tiny-2"]
    assert len(get(f"{hub.endpoint}/api/models?search=tiny&limit=3").links["next"]["url"]) > 0
    assert [model.id for model in HfApi().list_models(author="other")] == ["other/large"]


def test_what_the_real_client_makes_of_a_refusal(hub: Hub) -> None:
    hub.add("org/gated", FILES, gated="manual", access={"good": "accepted", "waiting": "pending"})
    hub.add("org/private", FILES, private=True, access={"good": "accepted"})
    for token in ("good", "waiting"):
        hub.issue_token(token)
    api = HfApi()
    with pytest.raises(GatedRepoError, match="restricted"):
        api.hf_hub_download("org/gated", "config.json", token=False)
    with pytest.raises(GatedRepoError, match="awaiting a review"):
        api.hf_hub_download("org/gated", "config.json", token="waiting")
    assert api.hf_hub_download("org/gated", "config.json", token="good")
    with pytest.raises(RepositoryNotFoundError):
        api.model_info("org/private", token="waiting")
    with pytest.raises(RepositoryNotFoundError):
        api.model_info("org/nothing", token=False)
    with pytest.raises(HfHubHTTPError, match="401"):
        api.model_info("org/gated", token="made-up")
    with pytest.raises(RevisionNotFoundError):
        api.model_info("org/gated", revision="v9", token="good")
    assert api.whoami(token="good")["name"] == "ada"


def test_a_renamed_model_is_found_by_its_old_name(hub: Hub) -> None:
    hub.add("org/old", FILES)
    hub.rename("org/old", "org/new")
    assert HfApi().model_info("org/old").id == "org/new"


def test_ranges_and_a_server_that_ignores_them(hub: Hub, address: str) -> None:
    part = get(address, Range="bytes=10-")
    assert (part.status_code, part.content) == (206, WEIGHTS[10:])
    assert part.headers["content-range"] == f"bytes 10-{len(WEIGHTS) - 1}/{len(WEIGHTS)}"
    assert get(address, Range=f"bytes={len(WEIGHTS)}-").status_code == 416
    hub.fail("model.safetensors", no_range())
    whole = get(address, Range="bytes=10-")
    assert (whole.status_code, whole.content) == (200, WEIGHTS)


def test_faults_happen_as_often_as_planned(hub: Hub, address: str) -> None:
    hub.fail("model.safetensors", drop(after=100))
    hub.fail("model.safetensors", wrong_length(by=50))
    for _ in range(2):
        with pytest.raises(httpx2.RemoteProtocolError):
            get(address)
    hub.fail("model.safetensors", status(429, retry_after="7"))
    assert get(address).headers["retry-after"] == "7"
    hub.fail("model.safetensors", corrupt(at=5))
    assert get(address, Range="bytes=5-5").content == bytes([WEIGHTS[5] ^ 0xFF])
    assert get(address).content == WEIGHTS


def test_a_stalled_response_goes_on_when_it_is_released(hub: Hub, address: str) -> None:
    hub.fail("model.safetensors", stall(after=100))
    with httpx2.Client(timeout=0.2, follow_redirects=True) as client, pytest.raises(httpx2.ReadTimeout):
        client.get(address)
    hub.fail("model.safetensors", stall(after=100))
    hub.release()
    assert get(address).content == WEIGHTS


def test_the_log_shows_who_got_the_token(hub: Hub, address: str) -> None:
    hub.issue_token("secret")
    get(address, Authorization="Bearer secret")
    assert [(each.server, each.token) for each in hub.requests] == [("hub", "secret"), ("cdn", "")]
