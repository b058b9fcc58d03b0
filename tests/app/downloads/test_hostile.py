"""Repositories that mean harm, and models that are not for everybody: nothing is written, and one sentence says why."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.downloads.dependencies import Dependencies, RetryPolicy
from app.downloads.download import Download
from app.downloads.progress import State
from app.hub.failures import HubError, Reason
from app.hub.names import INDEX
from tests.app.downloads.conftest import Start
from tests.app.downloads.models import FILES, REPO, contents, put_up
from tests.hub import Hub, status
from tests.links import needs_links

LISTING = f"/api/models/{REPO}/revision/main"


def is_unusable(download: Download) -> bool:
    """Whether it failed because the repository should not be downloaded."""
    error = download.progress.error
    return isinstance(error, HubError) and error.reason is Reason.UNUSABLE


@pytest.mark.parametrize(
    "name",
    [
        "../evil.json",
        "..",
        "a/../../evil.json",
        "/etc/evil.json",
        "~/evil.json",
        "C:/evil.json",
        "c:evil.safetensors",
        "..\\evil.json",
        "\\\\host\\share\\evil.json",
        "a\\..\\..\\evil.json",
        "evil\n.json",
        "evil\0.json",
    ],
)
def test_a_name_that_leads_out_refuses_the_whole_repository(hub: Hub, start: Start, tmp_path: Path, name: str) -> None:
    hub.add(REPO, FILES | {name: b"evil"})
    for to in ("", str(tmp_path / "to")):
        download = start(to=to)
        download.run()
        assert is_unusable(download)
        assert "outside its folder" in download.progress.message
        assert "\n" not in download.progress.message
    assert not contents(tmp_path)


@pytest.mark.parametrize("name", ["con.safetensors", "LPT1.safetensors", "a?.safetensors", "x" * 300 + ".safetensors"])
def test_a_name_that_not_every_system_can_keep_is_refused(hub: Hub, start: Start, tmp_path: Path, name: str) -> None:
    files = {each: content for each, content in FILES.items() if not each.startswith("model-")}
    hub.add(REPO, files | {name: b"weights"})
    download = start()
    download.run()
    assert is_unusable(download)
    assert not contents(tmp_path)


def test_a_name_of_windows_devices_among_files_that_nobody_needs_is_no_matter(hub: Hub, start: Start) -> None:
    hub.add(REPO, FILES | {"docs/aux.md": b"# Auxiliary", "nul.txt": b""})
    download = start()
    download.run()
    assert download.progress.state is State.DONE


@pytest.mark.parametrize(("name", "size"), [("config.json", 1_000_000_000), ("tokenizer.json", 10**15)])
def test_a_small_file_that_claims_to_be_huge_is_refused_by_its_size(
    hub: Hub, start: Start, tmp_path: Path, name: str, size: int
) -> None:
    put_up(hub, announced={name: size})
    download = start()
    download.run()
    assert download.progress.state is State.FAILED
    assert download.progress.message.startswith(f"{name} of {REPO} claims to have {size / 1e6:,.0f} MB;")
    assert not hub.asked(name)
    assert not contents(tmp_path)


def test_a_file_that_is_longer_than_announced_is_cut_where_it_should_end(hub: Hub, start: Start, cache: Path) -> None:
    """However much a server sends, no more is written than the listing said; the checksum then tells."""
    repo = put_up(hub, announced={"config.json": 5})
    download = start()
    download.run()
    assert download.progress.state is State.FAILED
    assert "damaged twice" in download.progress.message
    assert "config.json" not in contents(cache / "snapshots" / repo.commit)


@pytest.mark.parametrize("blob_id", ["../../../evil", "/etc/passwd", "A" * 40, "0" * 39, ""])
def test_a_checksum_that_is_none_is_refused(hub: Hub, start: Start, tmp_path: Path, blob_id: str) -> None:
    repo = put_up(hub)
    repo.details = {"siblings": [{"rfilename": "config.json", "size": 2, "blobId": blob_id}, *_others(repo)]}
    download = start()
    download.run()
    assert is_unusable(download)
    assert not contents(tmp_path)


def _others(repo: Any) -> list[Any]:
    return [repo.sibling(name) for name in FILES if name != "config.json"]


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b"<html>sign in to the hotel's network</html>",
        b"null",
        b"{}",
        b'{"sha": "../../evil", "siblings": []}',
        json.dumps({"sha": "0" * 40, "siblings": [7]}).encode(),
        json.dumps({"sha": "0" * 40, "siblings": [{"rfilename": "x"}] * 10_001}).encode(),
        b'{"siblings": [' + b"{}," * 500_000 + b"{}]}",
    ],
    ids=["nested", "html", "null", "empty", "commit", "number", "many", "brackets"],
)
def test_a_listing_that_is_none_ends_in_one_sentence(
    hub: Hub, start: Start, dependencies: Dependencies, tmp_path: Path, body: bytes
) -> None:
    put_up(hub)
    hub.fail(LISTING, status(200, body=body), times=3)
    download = start(using=replace(dependencies, retry=RetryPolicy(attempts=3)))
    download.run()
    assert download.progress.state is State.FAILED
    assert download.progress.message.count(". ") == 0
    assert not contents(tmp_path)


def test_a_listing_of_brackets_is_never_parsed(hub: Hub, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr("app.system.json_text.json.loads", lambda content: read.append(len(content)))
    put_up(hub)
    hub.fail(LISTING, status(200, body=b"[" + b"{}," * 500_000 + b"{}]"), times=99)
    start().run()
    assert read == []


def test_a_listing_without_an_end_is_left(hub: Hub, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.hub.files._MAX_LISTING_BYTES", 1000)
    put_up(hub)
    hub.fail(LISTING, status(200, body=b" " * 100_000))
    download = start()
    download.run()
    assert "its listing has no end" in download.progress.message


@pytest.mark.parametrize(
    ("shard", "words"), [("../evil.safetensors", "outside its folder"), ("model-3.safetensors", "is missing")]
)
def test_an_index_of_other_files_is_refused(hub: Hub, start: Start, tmp_path: Path, shard: str, words: str) -> None:
    hub.add(REPO, FILES | {INDEX: json.dumps({"weight_map": {"tensor": shard}}).encode()})
    download = start()
    download.run()
    assert is_unusable(download)
    assert words in download.progress.message
    assert not contents(tmp_path)


@needs_links
def test_a_link_in_a_repository_is_only_its_text(hub: Hub, start: Start, cache: Path) -> None:
    """Git keeps a symbolic link as a small file that holds its target."""
    repo = hub.add(REPO, FILES | {"tokenizer_config.json": b"../../../../../etc/passwd"})
    start().run()
    target = (cache / "snapshots" / repo.commit / "tokenizer_config.json").resolve()
    assert target == cache / "blobs" / repo.etag("tokenizer_config.json")
    assert not target.is_symlink()


@pytest.mark.parametrize("left", [["pytorch_model.bin", "config.json"], ["adapter_model.safetensors"]])
def test_what_is_no_model_in_safetensors_is_refused(hub: Hub, start: Start, left: list[str]) -> None:
    hub.add(REPO, dict.fromkeys(left, b"x"))
    download = start()
    download.run()
    assert "neither a model.safetensors nor an index" in download.progress.message


@pytest.mark.parametrize(
    ("token", "reason", "words"),
    [
        ("", Reason.NOT_LOGGED_IN, "you are not logged in"),
        ("new", Reason.LICENCE_NOT_ACCEPTED, "You have not accepted the licence"),
        ("waiting", Reason.REFUSED, "awaits a review"),
        ("unwanted", Reason.REFUSED, "refused you access"),
        ("made-up", Reason.NOT_LOGGED_IN, "does not accept the token"),
    ],
)
def test_a_gated_model_says_what_is_missing(
    hub: Hub, start: Start, dependencies: Dependencies, cache: Path, token: str, reason: Reason, words: str
) -> None:
    put_up(hub, gated="manual", access={"waiting": "pending", "unwanted": "rejected"})
    for known in ("new", "waiting", "unwanted"):
        hub.issue_token(known)
    download = start(using=replace(dependencies, token=lambda: token))
    download.run()
    error = download.progress.error
    assert isinstance(error, HubError)
    assert error.reason is reason
    assert words in error.message
    assert error.page == ("" if token == "made-up" else f"{hub.endpoint}/{REPO}")
    assert not cache.exists(), "what was made for it is gone again"


@pytest.mark.parametrize("token", ["", "known"])
def test_a_model_that_is_not_there_or_private(hub: Hub, start: Start, dependencies: Dependencies, token: str) -> None:
    put_up(hub, private=True)
    hub.issue_token("known")
    download = start(using=replace(dependencies, token=lambda: token))
    download.run()
    assert isinstance(download.progress.error, HubError)
    assert download.progress.error.reason is Reason.NOT_FOUND


@pytest.mark.parametrize(
    "asked",
    [
        {"repo_id": "../evil"},
        {"repo_id": "org/../evil"},
        {"repo_id": "plain"},
        {"repo_id": "a/b/c"},
        {"repo_id": "org/a--b"},
        {"repo_id": "org/name?x=1"},
        {"revision": "../main"},
        {"revision": "/main"},
        {"revision": ""},
        {"revision": "nul"},
    ],
    ids=str,
)
def test_a_name_that_is_none_is_not_asked_for(hub: Hub, start: Start, tmp_path: Path, asked: dict[str, str]) -> None:
    download = start(**asked)
    download.run()
    assert download.progress.message.startswith("That is not the name of a")
    assert not hub.requests
    assert not contents(tmp_path)
