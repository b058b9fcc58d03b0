"""GGUF models in the hub's cache and in a person's folders: found, and deleted without what lies beside them."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.library.local.models import Home, LocalModel
from app.library.local.removal import Removals
from app.library.local.scan import find_models
from app.system.background import Stop
from engine.errors import CoppiceError
from tests.app.hub.ggufs import gguf
from tests.app.hub.repositories import tiny
from tests.app.library.local.folders import cached, write


def found(cache: Path, *folders: Path) -> dict[str, LocalModel]:
    return {model.source: model for model in find_models(cache, folders, Stop())}


def remove(model: LocalModel, removals: Removals) -> None:
    removals.remove(model.root, to_trash=False, parts=model.parts)


FILES = {"Tiny-Q4_K_M.gguf": gguf(), "Tiny-Q8_0.gguf": gguf(padding=1)}


def test_variants_in_the_cache_are_models_of_their_own(tmp_path: Path) -> None:
    cached(tmp_path, "org/tiny", FILES | {"config.json": b'{"model_type": "llama"}'})
    models = found(tmp_path)
    assert set(models) == {"org/tiny:Q4_K_M", "org/tiny:Q8_0"}, "a config alone makes no model of the rest"
    model = models["org/tiny:Q4_K_M"]
    assert (model.home, model.bytes, model.alias) == (Home.HUB_CACHE, len(gguf()), "org/tiny:Tiny-Q4_K_M")
    assert not model.problem


def test_files_that_are_cut_off_are_told_from_their_tables(tmp_path: Path) -> None:
    write(tmp_path, {"a.gguf": gguf()[:28], "b.gguf": gguf()[:20_000], "c.gguf": gguf()})
    parts = {f"d-0000{number}-of-00002.gguf": gguf(padding=1 << 17) for number in (1, 2)}
    write(tmp_path, parts | {"d-00002-of-00002.gguf": gguf()[:20_000]})
    write(tmp_path, {"e-00001-of-00002.gguf": gguf(), "e-00002-of-00002.gguf": gguf()[:-100]})
    said = {model.name: model.problem for model in find_models(tmp_path / "none", [tmp_path], Stop())}
    assert said["a"] == "a.gguf is damaged or cut off."
    assert said["b"].startswith("b.gguf is cut off: only 20.0 kB of at least ")
    assert said["c"] == ""
    assert said["d"].startswith("d-00002-of-00002.gguf is cut off")
    assert said["e"].startswith("e-00002-of-00002.gguf is cut off"), "inside its last tensor"


def test_one_variant_is_deleted_and_put_back_without_the_other(tmp_path: Path) -> None:
    root = cached(tmp_path, "org/tiny", FILES)
    before = sorted(path.relative_to(root) for path in root.rglob("*"))
    removals = Removals()
    remove(found(tmp_path)["org/tiny:Q4_K_M"], removals)
    assert set(found(tmp_path)) == {"org/tiny:Q8_0"}
    assert not found(tmp_path)["org/tiny:Q8_0"].parts, "now it is alone"
    assert len(list((root / "blobs").iterdir())) == 1
    removals.undo(removals.waiting[0])
    assert sorted(path.relative_to(root) for path in root.rglob("*")) == before
    remove(found(tmp_path)["org/tiny:Q4_K_M"], removals)
    assert removals.settle() >= len(gguf())
    assert [path.name for path in tmp_path.iterdir()] == ["models--org--tiny"]


def test_safetensors_beside_variants_go_alone_too(tmp_path: Path) -> None:
    cached(tmp_path, "org/tiny", tiny() | FILES)
    models = found(tmp_path)
    assert set(models) == {"org/tiny", "org/tiny:Q4_K_M", "org/tiny:Q8_0"}
    assert models["org/tiny"].bytes < len(gguf()) + sum(map(len, tiny().values()))
    removals = Removals()
    remove(models["org/tiny"], removals)
    removals.settle()
    assert set(found(tmp_path)) == {"org/tiny:Q4_K_M", "org/tiny:Q8_0"}


def test_a_blob_that_another_name_needs_stays(tmp_path: Path) -> None:
    root = cached(tmp_path, "org/tiny", FILES | {"copy-Q6_K.gguf": gguf()})
    removals = Removals()
    remove(found(tmp_path)["org/tiny:Q4_K_M"], removals)
    assert len(list((root / "blobs").iterdir())) == 2
    assert not found(tmp_path)["org/tiny:Q6_K"].problem


def test_a_file_in_ones_own_folder_goes_to_the_trash_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trashed: list[Path] = []
    monkeypatch.setitem(sys.modules, "send2trash", SimpleNamespace(send2trash=trashed.append))
    folder = write(tmp_path / "mine", FILES | {"notes.txt": b"keep"})
    (folder / "for later" / "on").mkdir(parents=True)
    models = found(tmp_path / "none", tmp_path)
    assert set(models) == {str(folder / name) for name in FILES}
    model = models[str(folder / "Tiny-Q8_0.gguf")]
    assert (model.name, model.home, model.format) == ("Tiny-Q8_0", Home.FOLDER, "GGUF Q8_0")
    removals = Removals()
    removals.remove(model.root, to_trash=True, parts=model.parts)
    assert not (folder / "Tiny-Q8_0.gguf").exists()
    removals.settle()
    assert trashed == [folder / "Tiny-Q8_0.gguf"]
    left = ["Tiny-Q4_K_M.gguf", "Tiny-Q8_0.gguf", "for later", "notes.txt"]
    assert sorted(path.name for path in folder.iterdir()) == left
    assert (folder / "for later" / "on").is_dir()


def test_a_file_that_was_put_there_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", FILES)
    removals = Removals()
    removed = removals.remove(folder, to_trash=False, parts=(folder / "Tiny-Q8_0.gguf",))
    write(folder, {"Tiny-Q8_0.gguf": b"new"})
    with pytest.raises(CoppiceError, match="is there again"):
        removals.undo(removed)
    assert (folder / "Tiny-Q8_0.gguf").read_bytes() == b"new"
