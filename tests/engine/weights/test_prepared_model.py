"""Prepared models: refused when they are not what they were, mended, listed, and deleted without harm to others."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import Cancellation, Cancelled, ModelError
from engine.weights.store.manifest import NAME, fingerprint, read_manifest
from engine.weights.store.prepared_model import (
    delete_prepared,
    folder_name,
    layer_path,
    list_prepared,
    open_prepared,
    verify,
)
from tests.engine.weights.five_layers import Maker, assert_whole, finish, flip, link, run, truncate
from tests.links import make_link


@pytest.fixture
def maker() -> Maker:
    return Maker()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "tiny-float32"


@pytest.mark.parametrize(
    ("damage", "words"), [(truncate, "bytes and not"), (Path.unlink, "is missing"), (link, "is a link")]
)
def test_a_complete_model_with_a_wrong_file_is_refused_and_mended(
    folder: Path, maker: Maker, damage: Callable[[Path], None], words: str
) -> None:
    finish(folder, maker.work())
    damage(layer_path(folder, 3))
    with pytest.raises(ModelError, match=words):
        open_prepared(folder)
    maker.made.clear()
    finish(folder, maker.work())
    assert maker.made == [3]
    (folder / "elsewhere").unlink(missing_ok=True)
    assert_whole(folder)


def test_a_flipped_bit_is_found_by_verifying_and_mended_by_preparing(folder: Path, maker: Maker) -> None:
    finish(folder, maker.work())
    flip(layer_path(folder, 2))
    steps = verify(open_prepared(folder), Cancellation())
    assert [next(steps), next(steps)] == [0, 1]
    with pytest.raises(ModelError, match=r"layer-00002\.safetensors is not as it was written"):
        next(steps)
    maker.made.clear()
    finish(folder, maker.work())
    assert maker.made == [2]
    assert_whole(folder)


def test_verifying_can_be_cancelled(folder: Path, maker: Maker) -> None:
    finish(folder, maker.work())
    cancellation = Cancellation()
    steps = verify(open_prepared(folder), cancellation)
    next(steps)
    cancellation.cancel(0)
    with pytest.raises(Cancelled):
        next(steps)


def test_a_layer_under_another_s_name_is_refused_and_mended(folder: Path, maker: Maker) -> None:
    finish(folder, maker.work())
    shutil.copyfile(layer_path(folder, 1), layer_path(folder, 2))
    with pytest.raises(ModelError, match="another layer than its name says"):
        open_prepared(folder).layouts()
    maker.made.clear()
    finish(folder, maker.work())
    assert maker.made == [2]
    assert_whole(folder)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"{", b"["),
        (b"mlp.weight", b"mlq.weight"),
        (b'"F32"', b'"I32"'),
        (b"[64,32]", b"[32,64]"),
        (b'"codec":"plain"', b'"codec":"plaim"'),
    ],
)
def test_a_damaged_table_of_a_complete_model_is_mended_by_preparing(
    old: bytes, new: bytes, folder: Path, maker: Maker
) -> None:
    """Before it is loaded: of its numbers nothing is compared then, but they must be those that the codec stores."""
    finish(folder, maker.work())
    path = layer_path(folder, 2)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    maker.made.clear()
    finish(folder, maker.work())
    assert maker.made == [2]
    assert_whole(folder)


def test_a_prepared_model_knows_which_source_it_belongs_to(folder: Path, maker: Maker) -> None:
    finish(folder, maker.work())
    assert open_prepared(folder, "as it was").recipe.name == "org/tiny"
    with pytest.raises(ModelError, match="have changed since it was prepared"):
        open_prepared(folder, "another")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "{}",
        '{"kind": "somebody else\'s"}',
        '{"kind": "coppice prepared layers", "format": 99}',
        '{"kind": "coppice prepared layers", "format": 1}',
        '{"kind": "coppice prepared layers", "format": 1, "recipe": {}, "layers": {}, "complete": true}',
    ],
)
def test_a_manifest_that_makes_no_sense_is_one_sentence(folder: Path, maker: Maker, content: str) -> None:
    folder.mkdir(parents=True)
    (folder / NAME).write_text(content)
    for attempt in (open_prepared, delete_prepared, lambda place: finish(place, maker.work())):
        with pytest.raises(ModelError) as refusal:
            attempt(folder)
        assert "\n" not in str(refusal.value)
    assert list_prepared(folder.parent) == ()
    assert (folder / NAME).exists()


@pytest.mark.parametrize("index", ["-1", "5", "../../evil"])
def test_a_manifest_cannot_name_files_outside(folder: Path, maker: Maker, index: str) -> None:
    finish(folder, maker.work())
    content = json.loads((folder / NAME).read_text())
    content["layers"][index] = {"nbytes": 1, "digest": "0"}
    (folder / NAME).write_text(json.dumps(content))
    with pytest.raises(ModelError, match="is damaged"):
        open_prepared(folder)


def test_a_manifest_that_is_a_link_is_refused(folder: Path, maker: Maker) -> None:
    finish(folder, maker.work())
    link(folder / NAME)
    with pytest.raises(ModelError, match="is a link"):
        open_prepared(folder)
    with pytest.raises(ModelError, match="is a link"):
        delete_prepared(folder)


def test_prepared_models_are_listed_and_deleted(folder: Path, maker: Maker) -> None:
    cache = folder.parent
    assert list_prepared(cache) == ()
    finish(folder, maker.work())
    run(cache / "another", maker.work(), 1)
    (cache / "not ours").mkdir()
    (cache / "a file").write_text("")
    found = list_prepared(cache)
    assert [(model.folder.name, model.complete) for model in found] == [("another", False), ("tiny-float32", True)]
    assert found[1].nbytes == sum(path.stat().st_size for path in folder.glob("layer-*"))
    (folder / "notes.txt").write_text("precious")
    for model in found:
        delete_prepared(model.folder)
    assert sorted(path.name for path in cache.iterdir()) == ["a file", "not ours", "tiny-float32"]
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_deleting_does_not_follow_links(folder: Path, maker: Maker, tmp_path: Path) -> None:
    finish(folder, maker.work())
    elsewhere = tmp_path / "elsewhere"
    shutil.move(layer_path(folder, 0), elsewhere)
    make_link(layer_path(folder, 0), elsewhere)
    door = tmp_path / "door"
    make_link(door, folder)
    with pytest.raises(ModelError, match="Nothing was deleted"):
        delete_prepared(door)
    delete_prepared(folder)
    assert elsewhere.exists()
    assert not folder.exists()


def test_the_fingerprint_notices_what_matters(tmp_path: Path) -> None:
    files = [tmp_path / "config.json", tmp_path / "model.safetensors"]
    for path in files:
        path.write_bytes(b"x" * 1000)
    before = fingerprint(files)
    assert fingerprint(files[::-1]) == before
    times = files[1].stat()
    files[1].write_bytes(b"x" * 999 + b"y")
    os.utime(files[1], ns=(times.st_atime_ns, times.st_mtime_ns))
    assert fingerprint(files) != before, "other content"
    files[1].write_bytes(b"x" * 1000)
    os.utime(files[1], ns=(times.st_atime_ns, times.st_mtime_ns))
    assert fingerprint(files) == before
    os.utime(files[1], ns=(times.st_atime_ns, times.st_mtime_ns + 100))  # the least that NTFS tells apart
    assert fingerprint(files) != before, "written again"
    files[1].unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        fingerprint(files)


@pytest.mark.parametrize("name", ["org/model", "../../etc", "a" * 300, "Ünï cödé", ".hidden", "con\0trol\n"])
def test_folder_names_are_plain(name: str, tmp_path: Path) -> None:
    safe = folder_name(name, "nf4", "0123456789abcdef")
    assert safe.endswith("-nf4-0123456789ab")
    assert (tmp_path / safe).resolve().parent == tmp_path.resolve()
    (tmp_path / safe).mkdir()


def test_the_manifest_tells_what_was_made_from_what(folder: Path, maker: Maker) -> None:
    finish(folder, maker.work())
    manifest = read_manifest(folder)
    assert manifest is not None
    assert manifest.recipe == maker.work().recipe
    assert manifest.recipe.source == "/models/tiny"
    assert manifest.complete
