"""Downloads of GGUF variants: exactly their parts, into the hub's cache or a folder, taken up again, and cancelled."""

from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir

from app.downloads.control import StopKind
from app.downloads.dependencies import Dependencies
from app.downloads.progress import Request, State
from app.downloads.queue import DownloadQueue, Entry, Journal
from engine.protocol.variants import variants_in_cache
from tests.app.downloads.conftest import Start
from tests.app.downloads.models import REPO, WEIGHTS, body_bytes, contents
from tests.hub import Hub, drop

PARTS = {f"Q8_0/Tiny-Q8_0-0000{number}-of-00002.gguf": WEIGHTS[number:] for number in (1, 2)}
FILES = PARTS | {"Tiny-Q4_K_M.gguf": WEIGHTS, "config.json": b"{}", "README.md": b"#"}
ENCODERS = {"mmproj-F32.gguf": b"as wide", "mmproj-BF16.gguf": b"halves", "mmproj-F16.gguf": b"half"}


def test_exactly_the_parts_of_a_variant_arrive(hub: Hub, start: Start, cache: Path) -> None:
    repo = hub.add(REPO, FILES)
    download = start(variant="q8_0")
    download.run()
    assert download.progress.state is State.DONE
    assert download.progress.bytes_total == sum(map(len, PARTS.values()))
    folder = cache / "snapshots" / repo.commit
    assert contents(folder) == PARTS
    for name in PARTS:
        assert (folder / name).readlink() == Path("../../../blobs") / repo.etag(name)
    ((snapshot, variant),) = variants_in_cache(cache)
    assert (snapshot, variant.name, variant.files) == (folder, "Q8_0", tuple(PARTS))
    scanned = scan_cache_dir()
    assert not scanned.warnings


def test_two_variants_lie_beside_each_other_and_nothing_is_fetched_twice(hub: Hub, start: Start, cache: Path) -> None:
    hub.add(REPO, FILES)
    start(variant="Q4_K_M").run()
    start(variant="Q8_0").run()
    start(variant="Q4_K_M").run()
    assert {variant.name for _, variant in variants_in_cache(cache)} == {"Q4_K_M", "Q8_0"}
    assert body_bytes(hub, "Tiny-Q4_K_M.gguf") == len(WEIGHTS)


def test_what_reads_pictures_comes_with_a_variant_once(hub: Hub, start: Start, cache: Path) -> None:
    repo = hub.add(REPO, FILES | ENCODERS)
    encoder = {"mmproj-F16.gguf": b"half"}
    first = start(variant="Q8_0")
    first.run()
    assert first.progress.bytes_total == sum(map(len, PARTS.values())) + len(b"half")
    assert contents(cache / "snapshots" / repo.commit) == PARTS | encoder
    start(variant="Q4_K_M").run()
    assert contents(cache / "snapshots" / repo.commit) == PARTS | encoder | {"Tiny-Q4_K_M.gguf": WEIGHTS}
    assert body_bytes(hub, "mmproj-F16.gguf") == len(b"half")
    assert {variant.name for _, variant in variants_in_cache(cache)} == {"Q4_K_M", "Q8_0"}


def test_a_variant_of_an_older_commit_is_still_found(hub: Hub, start: Start, cache: Path) -> None:
    hub.add(REPO, FILES)
    start(variant="Q4_K_M").run()
    hub.add(REPO, FILES | {"README.md": b"# News"})
    start(variant="Q8_0").run()
    assert {variant.name for _, variant in variants_in_cache(cache)} == {"Q4_K_M", "Q8_0"}


def test_a_folder_that_somebody_named_holds_the_parts_side_by_side(hub: Hub, start: Start, tmp_path: Path) -> None:
    hub.add(REPO, FILES)
    start(tmp_path / "here", variant="Q8_0").run()
    assert contents(tmp_path / "here") == {name.rpartition("/")[2]: content for name, content in PARTS.items()}


def test_a_broken_transfer_goes_on_where_it_was(hub: Hub, start: Start, cache: Path) -> None:
    hub.add(REPO, FILES)
    hub.fail("Tiny-Q4_K_M.gguf", drop(after=100_000))
    download = start(variant="Q4_K_M")
    download.run()
    assert download.progress.state is State.DONE
    assert body_bytes(hub, "Tiny-Q4_K_M.gguf") < 1.5 * len(WEIGHTS)
    assert not list(cache.rglob("*.incomplete"))


def test_a_cancelled_one_leaves_nothing(hub: Hub, start: Start, cache: Path) -> None:
    hub.add(REPO, FILES)
    download = start(variant="Q8_0")
    download.stop(StopKind.CANCEL)
    download.run()
    assert download.progress.state is State.CANCELLED
    assert not cache.exists()


@pytest.mark.parametrize(("variant", "said"), [("", "a variant is to be chosen"), ("Q2_K", "no complete variant Q2_K")])
def test_what_is_not_there_is_said_with_what_is(hub: Hub, start: Start, variant: str, said: str) -> None:
    hub.add(REPO, FILES)
    download = start(variant=variant)
    download.run()
    assert said in download.progress.message
    assert "Q4_K_M, Q8_0" in download.progress.hint or "Q8_0, Q4_K_M" in download.progress.hint


@pytest.mark.parametrize("name", ["../Tiny-Q4_K_M.gguf", "/etc/Tiny-Q4_K_M.gguf", "a\\Tiny-Q4_K_M.gguf"])
def test_a_name_that_leads_out_is_refused(hub: Hub, start: Start, cache: Path, name: str) -> None:
    hub.add(REPO, {name: WEIGHTS})
    download = start(variant="Q4_K_M")
    download.run()
    assert download.progress.state is State.FAILED
    assert not cache.exists()


def test_the_journal_keeps_the_variant_and_refuses_a_strange_one(
    hub: Hub, start: Start, tmp_path: Path, dependencies: Dependencies
) -> None:
    hub.add(REPO, FILES)
    download = start(variant="Q8_0")
    download.run()
    journal = Journal(tmp_path / "downloads.json")
    entry = Entry(download.request, download.plan)
    journal.write([entry])
    assert journal.read() == (entry,)
    queue = DownloadQueue(journal, dependencies)
    queue.restore()
    assert [each.request.source for each in queue.snapshot()] == [f"{REPO}:Q8_0"]
    journal.write([replace(entry, request=replace(download.request, variant="../x"))])
    assert journal.read() == ()


def test_a_source_is_a_request() -> None:
    assert Request.of("org/tiny:Q8_0") == Request("org/tiny", variant="Q8_0")
    assert Request.of("org/tiny").source == "org/tiny"
