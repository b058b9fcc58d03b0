"""A download of a whole model: what it fetches, where it puts it, and what it says meanwhile."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import scan_cache_dir, snapshot_download, try_to_load_from_cache
from safetensors.numpy import save

from app.downloads.control import StopKind
from app.downloads.destinations import CacheDestination, Destination, FolderDestination
from app.downloads.disk import Disk, FileInUse, opened
from app.downloads.progress import State
from app.hub.files import RemoteFile
from app.hub.names import INDEX
from app.hub.place import HubPlace
from app.library.local.scan import find_models
from app.system.background import Stop
from engine.model.model_folder import ModelFolder, find_model
from tests.app.downloads.conftest import Start
from tests.app.downloads.models import FILES, REPO, SHARDS, UNWANTED, WEIGHTS, contents, put_up
from tests.hub import Hub, corrupt, status
from tests.links import make_link, needs_links


@needs_links
def test_exactly_what_a_model_needs_arrives_in_the_cache_of_the_hubs_own_client(
    hub: Hub, start: Start, cache: Path
) -> None:
    repo = put_up(hub)
    download = start()
    download.run()
    folder = cache / "snapshots" / repo.commit
    assert download.progress.state is State.DONE
    assert download.progress.path == str(folder)
    assert contents(folder) == FILES
    assert (cache / "refs" / "main").read_text("utf-8") == repo.commit
    assert {path.name for path in (cache / "blobs").iterdir()} == {repo.etag(name) for name in FILES}
    for name in FILES:
        assert (folder / name).is_symlink()
        assert (folder / name).readlink() == Path("../../blobs") / repo.etag(name)


@needs_links
def test_the_hubs_own_client_and_the_engine_find_it(hub: Hub, start: Start, cache: Path) -> None:
    repo = put_up(hub)
    start().run()
    asked = len(hub.requests)
    folder = snapshot_download(REPO, local_files_only=True)
    assert folder == str(cache / "snapshots" / repo.commit)
    assert try_to_load_from_cache(REPO, SHARDS[1]) == f"{folder}/{SHARDS[1]}"
    scanned = scan_cache_dir()
    assert not scanned.warnings
    (found,) = scanned.repos
    assert (found.repo_id, found.nb_files, found.size_on_disk) == (REPO, len(FILES), sum(map(len, FILES.values())))
    assert {*next(iter(found.revisions)).refs} == {"main"}
    assert ModelFolder(find_model(REPO, "target")).file(SHARDS[0]).read_bytes() == WEIGHTS
    assert len(hub.requests) == asked


def test_what_the_hubs_own_client_has_is_not_fetched_again(hub: Hub, start: Start) -> None:
    put_up(hub)
    snapshot_download(REPO)
    hub.requests.clear()
    download = start()
    download.run()
    assert download.progress.state is State.DONE
    assert [request.path for request in hub.requests] == [f"/api/models/{REPO}/revision/main"]


@needs_links
def test_a_new_version_fetches_only_what_changed_and_takes_over_when_it_is_complete(
    hub: Hub, start: Start, cache: Path
) -> None:
    old = put_up(hub).commit
    start().run()
    new = hub.add(REPO, FILES | {SHARDS[1]: b"changed"})
    hub.requests.clear()
    hub.fail(SHARDS[1], status(404, X_Error_Code="EntryNotFound"))
    failed = start()
    failed.run()
    assert failed.progress.state is State.FAILED
    assert (cache / "refs" / "main").read_text("utf-8") == old
    start().run()
    assert (cache / "refs" / "main").read_text("utf-8") == new.commit
    assert contents(cache / "snapshots" / new.commit)[SHARDS[1]] == b"changed"
    assert contents(cache / "snapshots" / old)[SHARDS[1]] == FILES[SHARDS[1]]
    assert [each.path.rpartition("/")[2] for each in hub.requests if each.server == "cdn"] == [SHARDS[1]]


def test_a_tag_and_a_commit_can_be_asked_for(hub: Hub, start: Start, cache: Path) -> None:
    repo = put_up(hub, branches=("main", "refs/pr/7"))
    for revision in ("refs/pr/7", repo.commit):
        download = start(revision=revision)
        download.run()
        assert download.progress.state is State.DONE
    assert contents(cache / "refs") == {"refs/pr/7": repo.commit.encode()}


@needs_links
def test_files_with_the_same_content_are_fetched_once(hub: Hub, start: Start, cache: Path) -> None:
    repo = hub.add(REPO, FILES | {"special_tokens_map.json": FILES["generation_config.json"]})
    start().run()
    assert len(contents(cache / "snapshots" / repo.commit)) == len(FILES) + 1
    assert not hub.asked("special_tokens_map.json")


def test_shards_are_those_that_the_index_names(hub: Hub, start: Start, cache: Path) -> None:
    sizes = {SHARDS[0]: 50_000, SHARDS[1]: 40_000, "model_extra_tensors.safetensors": 100}
    shards = {name: save({f"tensor {name}": np.zeros(size, np.float32)}) for name, size in sizes.items()}
    index = json.dumps({"weight_map": {f"tensor {name}": name for name in shards}}).encode()
    repo = hub.add(REPO, FILES | UNWANTED | shards | {INDEX: index})
    hub.fail(INDEX, corrupt(at=len(index) - 10))
    start().run()
    names = set(contents(cache / "snapshots" / repo.commit))
    assert {name for name in names if name.endswith(".safetensors")} == set(shards)
    (model,) = find_models(cache.parent, (), Stop())
    assert model.problem == ""
    hub.requests.clear()
    start().run()
    assert len(hub.requests) == 1


def test_a_single_file_comes_before_an_index(hub: Hub, start: Start, cache: Path) -> None:
    repo = hub.add(REPO, FILES | {"model.safetensors": WEIGHTS})
    start().run()
    names = set(contents(cache / "snapshots" / repo.commit))
    assert {name for name in names if "safetensors" in name} == {"model.safetensors"}


def test_empty_files_and_files_that_exist_already_need_no_request(hub: Hub, start: Start, cache: Path) -> None:
    repo = hub.add(REPO, FILES | {"merges.txt": b""})
    download = start()
    download.run()
    assert (cache / "snapshots" / repo.commit / "merges.txt").read_bytes() == b""
    assert not hub.asked("merges.txt")


def test_where_links_do_not_work_the_files_themselves_lie_in_the_snapshot(
    hub: Hub, start: Start, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError("a privilege is not held by the client")

    repo = put_up(hub)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "symlink_to", refuse)
        start().run()
    folder = cache / "snapshots" / repo.commit
    assert contents(folder) == FILES
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert contents(cache / "blobs") == {}
    assert snapshot_download(REPO, local_files_only=True) == str(folder)
    hub.requests.clear()
    start().run()
    assert len(hub.requests) == 1


@needs_links
def test_a_plain_folder_gets_the_files_and_nothing_else(hub: Hub, start: Start, tmp_path: Path) -> None:
    put_up(hub)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "notes.txt").write_text("mine")
    (tmp_path / "elsewhere").write_text("mine too")
    make_link(tmp_path / "model" / "config.json", tmp_path / "elsewhere")
    download = start(to=tmp_path / "model")
    download.run()
    assert download.progress.path == str(tmp_path / "model")
    assert contents(tmp_path / "model") == FILES | {"notes.txt": b"mine"}
    assert (tmp_path / "elsewhere").read_text("utf-8") == "mine too"
    assert not (tmp_path / "hf" / "hub").exists()


def test_in_a_plain_folder_only_genuine_files_are_kept(hub: Hub, start: Start, tmp_path: Path) -> None:
    put_up(hub)
    start(to=tmp_path / "model").run()
    (tmp_path / "model" / SHARDS[0]).write_bytes(WEIGHTS[:-1] + b"?")
    hub.requests.clear()
    start(to=tmp_path / "model").run()
    assert contents(tmp_path / "model") == FILES
    assert [each.path.rpartition("/")[2] for each in hub.requests if each.server == "cdn"] == [SHARDS[0]]


@needs_links
def test_a_link_in_a_plain_folder_is_not_the_file_whatever_it_leads_to(hub: Hub, start: Start, tmp_path: Path) -> None:
    put_up(hub)
    (tmp_path / "model").mkdir()
    (tmp_path / "elsewhere").write_bytes(WEIGHTS)
    make_link(tmp_path / "model" / SHARDS[0], tmp_path / "elsewhere")
    start(to=tmp_path / "model").run()
    assert not (tmp_path / "model" / SHARDS[0]).is_symlink()
    assert contents(tmp_path / "model") == FILES


def test_progress_counts_every_byte_once(hub: Hub, start: Start) -> None:
    put_up(hub)
    download = start()
    assert download.progress.state is State.QUEUED
    download.run()
    progress = download.progress
    assert progress.bytes_done == progress.bytes_total == sum(map(len, FILES.values()))
    assert progress.fraction == 1.0


def test_a_cancel_leaves_nothing_that_was_not_complete(hub: Hub, start: Start, cache: Path) -> None:
    put_up(hub)
    download = start()
    download.stop(StopKind.CANCEL)
    download.run()
    assert download.progress.state is State.CANCELLED
    assert not cache.exists()


@pytest.mark.skipif(os.name == "nt", reason="what is open cannot be renamed there")
def test_a_file_is_kept_while_nobody_else_can_have_it_open(
    hub: Hub, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_up(hub)
    keep, others = CacheDestination.keep, []

    def keep_while_another_tries(place: CacheDestination, file: RemoteFile) -> None:
        try:
            with opened(file, place.partial(file), Disk()):
                others.append(file.name)
        except FileInUse:
            pass
        keep(place, file)

    monkeypatch.setattr(CacheDestination, "keep", keep_while_another_tries)
    download = start()
    download.run()
    assert (download.progress.state, others) == (State.DONE, [])


@pytest.mark.parametrize("into_cache", [True, False])
def test_what_is_partial_is_removed_unless_another_program_is_downloading_it(tmp_path: Path, into_cache: bool) -> None:
    file = RemoteFile(SHARDS[0], len(WEIGHTS), "a" * 64)
    folder = tmp_path / "model"
    places: list[Destination] = [
        CacheDestination(HubPlace("", tmp_path), REPO, "main", "c" * 40) if into_cache else FolderDestination(folder)
        for _ in range(2)
    ]
    places[0].prepare()
    with opened(file, places[0].partial(file), Disk()) as partial:
        partial.write(WEIGHTS[:1000])
        places[1].clear((file,))
        assert places[0].partial(file).is_file()
    places[1].clear((file,))
    assert not list(tmp_path.iterdir())


def test_a_partial_file_that_vanishes_is_fetched_again(hub: Hub, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    put_up(hub)
    keep = CacheDestination.keep
    removed: list[str] = []

    def remove_first(place: CacheDestination, file: RemoteFile) -> None:
        if file.name == SHARDS[0] and not removed:
            removed.append(file.name)
            place.partial(file).unlink()
        keep(place, file)

    monkeypatch.setattr(CacheDestination, "keep", remove_first)
    download = start()
    download.run()
    assert (download.progress.state, len(hub.asked(SHARDS[0]))) == (State.DONE, 2), download.progress.message


def test_a_file_that_another_program_kept_meanwhile_is_looked_for_again(
    hub: Hub, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file cannot be renamed as long as it is open, another program may come in between."""
    put_up(hub)
    monkeypatch.setattr("app.downloads.transfer._CAN_RENAME_OPEN_FILES", False)
    keep = CacheDestination.keep

    def keep_too_late(place: CacheDestination, file: RemoteFile) -> None:
        keep(place, file)  # the other program
        keep(place, file)

    monkeypatch.setattr(CacheDestination, "keep", keep_too_late)
    download = start()
    download.run()
    assert download.progress.state is State.DONE, download.progress.message
