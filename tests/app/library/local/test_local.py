"""Models on this computer: found wherever they lie, measured, verified, deleted and put back."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.hub.place import hub_place
from app.library.local.local_models import Found, LocalModels
from app.library.local.models import Home, LocalModel, Sight, find_prepared
from app.library.local.removal import ASIDE, Removals, Removed, settle_leftovers
from app.library.local.scan import find_models
from app.library.local.verification import Verifying, verify_model, verify_prepared
from app.system.background import Stop
from engine.errors import Cancelled, CoppiceError
from engine.model.model_folder import find_model
from engine.weights.store.manifest import LayerFile, Manifest, Recipe
from tests.app.hub.ggufs import gguf
from tests.app.hub.repositories import sharded, tiny
from tests.app.library.local.folders import cached, write
from tests.links import make_link

STOP = Stop()
PATIENCE_SECONDS = 30


def found(cache: Path, *folders: Path) -> dict[str, LocalModel]:
    return {model.name: model for model in find_models(cache, folders, STOP)}


def test_the_cache_is_where_the_hubs_variables_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "elsewhere"))
    assert hub_place().cache == tmp_path / "elsewhere"


def test_cached_models_are_found_by_their_id_and_cost_each_blob_once(tmp_path: Path) -> None:
    files = tiny()
    root = cached(tmp_path, "org/tiny--odd", files, commit="a" * 40)
    cached(tmp_path, "org/tiny--odd", {"config.json": b'{"model_type": "old"}'}, commit="b" * 40, main=False)
    (root / "blobs" / "x.incomplete").write_bytes(bytes(1000))
    (tmp_path / "models--broken").mkdir()
    (tmp_path / "datasets--org--data" / "snapshots").mkdir(parents=True)
    model = found(tmp_path)["org/tiny--odd"]
    assert (model.source, model.home, model.root) == ("org/tiny--odd", Home.HUB_CACHE, root)
    assert model.folder.name == "a" * 40
    assert (model.model_type, model.problem) == ("llama", "")
    extra = len(b'{"model_type": "old"}') + 1000 + 40
    assert model.bytes == sum(map(len, files.values())) + extra
    assert model.changed > 1.7e9
    assert list(found(tmp_path)) == ["org/tiny--odd"]


def test_the_engine_finds_the_commit_that_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    root = cached(tmp_path, "org/tagged", tiny(), main=False)
    assert find_model("org/tagged", "target") == found(tmp_path)["org/tagged"].folder == root / "snapshots" / ("c" * 40)
    root = cached(tmp_path, "org/older", tiny(), commit="a" * 40)
    cached(tmp_path, "org/older", {"Tiny-Q8_0.gguf": gguf()}, commit="b" * 40)
    assert find_model("org/older", "target") == found(tmp_path)["org/older"].folder == root / "snapshots" / ("a" * 40)


def test_folders_of_models_are_searched_and_a_link_in_them_is_not_followed(tmp_path: Path) -> None:
    local_models = tmp_path / "shelf"
    write(local_models / "owner" / "one", tiny())
    write(local_models / "two", sharded())
    write(tmp_path / "lone", tiny())
    write(local_models / ".hidden", tiny())
    write(local_models / "a" / "b" / "c" / "too-deep", tiny())
    make_link(local_models / "loop", local_models)
    models = found(tmp_path / "none", local_models, tmp_path / "lone", tmp_path / "missing")
    assert set(models) == {"one", "two", "lone"}
    assert models["one"].source == str(local_models / "owner" / "one")
    assert models["two"].bytes == sum(map(len, sharded().values()))
    assert not any(model.problem for model in models.values())


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"config.json": b"{}"}, "names no model_type"),
        ({"config.json": b"\xff"}, "cannot be read"),
        ({"config.json": b"[" * 100_000}, "cannot be read"),
        ({"config.json": b'{"model_type": "llama"}'}, "weights are missing"),
        ({"config.json": b'{"model_type": "llama"}', "pytorch_model.bin": b""}, "Only safetensors are opened"),
        ({name: content for name, content in sharded().items() if "00002" not in name}, "1 of 3 weight files"),
        (sharded() | {"model.safetensors.index.json": b"7"}, "index of weight files cannot be read"),
        (sharded() | {"model.safetensors.index.json": b'{"weight_map": {"a": "../x.safetensors"}}'}, "1 of 1"),
        (sharded() | {"model.safetensors.index.json": b"{}"}, "0 of 0"),
        (tiny() | {"model.safetensors": tiny()["model.safetensors"][:-1]}, "model.safetensors is cut off"),
        (tiny() | {"model.safetensors": tiny()["model.safetensors"][:100]}, "damaged or cut off"),
        (tiny() | {"model.safetensors": b""}, "damaged or cut off"),
        (tiny() | {"model.safetensors": b"\x02" + bytes(7) + b"[]"}, "damaged or cut off"),
        (
            sharded() | {"model-00002-of-00003.safetensors": sharded()["model-00002-of-00003.safetensors"][:-9]},
            "model-00002-of-00003.safetensors is cut off: only 62.7 kB of at least 62.7 kB",
        ),
    ],
)
def test_a_model_that_cannot_be_loaded_says_why(files: dict[str, bytes], problem: str, tmp_path: Path) -> None:
    write(tmp_path / "model", files)
    model = found(tmp_path / "none", tmp_path)["model"]
    assert problem in model.problem
    assert model.remedy.startswith(
        "Look for it in" if "pytorch_model.bin" in files else "Copy its files into the folder"
    )


def test_the_format_of_weights_may_be_said_beside_config_json(tmp_path: Path) -> None:
    said = b'{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}'
    for number, beside in enumerate((said, b"{", b"[]")):
        write(tmp_path / str(number), {**tiny(), "hf_quant_config.json": beside})
    models = found(tmp_path / "none", tmp_path)
    assert [models[name].format for name in "012"] == ["NVFP4", "safetensors 16-bit", "safetensors 16-bit"]


def test_what_is_no_safetensors_does_not_say_so(tmp_path: Path) -> None:
    config = {"config.json": tiny()["config.json"]}
    write(tmp_path / "pickles", config | {"pytorch_model.bin": b"x"})
    write(tmp_path / "nothing", config)
    models = found(tmp_path / "none", tmp_path)
    assert {name: model.format for name, model in models.items()} == {"pickles": "PyTorch", "nothing": ""}


def test_looking_can_be_stopped(tmp_path: Path) -> None:
    write(tmp_path / "model", tiny())
    stop = Stop()
    stop.ask()
    with pytest.raises(Cancelled):
        list(find_models(tmp_path, [tmp_path], stop))


def prepared(cache: Path, complete: bool = True) -> Path:
    """A prepared copy as the engine writes it, of two layers."""
    import hashlib

    folder = write(cache / "prepared" / "tiny-nf4-abc", {f"layer-0000{each}.safetensors": b"layer" for each in (0, 1)})
    digest = hashlib.sha256(b"layer").hexdigest()
    recipe = Recipe("org/tiny", "/models/tiny", "f" * 64, "nf4", "bfloat16", 2)
    Manifest(recipe, {each: LayerFile(5, digest) for each in (0, 1)}, complete).write(folder)
    return folder


def test_prepared_copies_are_told_from_the_engines_own_manifests(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    write(tmp_path / "prepared" / "junk", {"manifest.json": b"[]"})
    write(tmp_path / "prepared" / "other", {"manifest.json": b'{"kind": "cake"}'})
    (copy,) = find_prepared(tmp_path)
    assert (copy.folder, copy.name, copy.source, copy.weights) == (folder, "org/tiny", "/models/tiny", "nf4")
    assert (copy.bytes, copy.layers, copy.complete) == (10, 2, True)
    prepared(tmp_path, complete=False)
    assert not find_prepared(tmp_path)[0].complete
    assert find_prepared(tmp_path / "none") == ()


def last(steps: Any) -> Verifying:
    ended: Verifying = list(steps)[-1]
    return ended


def test_verifying_compares_every_file_with_the_hash_it_is_named_by(tmp_path: Path) -> None:
    root = cached(tmp_path, "org/tiny", tiny())
    model = found(tmp_path)["org/tiny"]
    whole = last(verify_model(model, STOP))
    assert (whole.damaged, whole.unknown) == ((), 0)
    assert whole.done_bytes == whole.total_bytes == sum(map(len, tiny().values()))
    for name in ("model.safetensors", "config.json"):
        blob = (model.folder / name).resolve()
        content = bytearray(blob.read_bytes())
        content[-1] ^= 1
        blob.write_bytes(content)
    assert last(verify_model(model, STOP)).damaged == ("config.json", "model.safetensors")
    assert root.is_dir()
    stop = Stop()
    stop.ask()
    with pytest.raises(Cancelled):
        list(verify_model(model, stop))


def test_a_folder_of_ones_own_has_no_hashes_and_a_prepared_copy_has(tmp_path: Path) -> None:
    write(tmp_path / "model", tiny())
    assert last(verify_model(found(tmp_path / "none", tmp_path)["model"], STOP)).unknown == len(tiny())
    folder = prepared(tmp_path)
    assert last(verify_prepared(find_prepared(tmp_path)[0], STOP)).damaged == ()
    (folder / "layer-00000.safetensors").write_bytes(b"later")
    (folder / "layer-00001.safetensors").unlink()
    damaged = last(verify_prepared(find_prepared(tmp_path)[0], STOP)).damaged
    assert damaged == ("layer-00000.safetensors", "layer-00001.safetensors")


def test_what_is_deleted_can_be_had_back_until_it_is_settled(tmp_path: Path) -> None:
    root = cached(tmp_path, "org/tiny", tiny())
    size = found(tmp_path)["org/tiny"].bytes
    removals = Removals()
    removed = removals.remove(root, to_trash=False)
    assert removed.bytes == size
    assert found(tmp_path) == {}
    removals.undo(removed)
    assert found(tmp_path)["org/tiny"].bytes == size
    assert removals.settle() == 0
    removals.remove(root, to_trash=False)
    assert removals.settle() == size
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_ones_own_goes_to_the_trash_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trashed: list[Path] = []
    monkeypatch.setitem(sys.modules, "send2trash", SimpleNamespace(send2trash=trashed.append))
    folder = write(tmp_path / "model", tiny())
    removals = Removals()
    removals.remove(folder, to_trash=True)
    assert trashed == []
    removals.settle()
    assert trashed == [folder]


def test_without_a_trash_it_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path) -> None:
        raise PermissionError("no trash here")

    monkeypatch.setitem(sys.modules, "send2trash", SimpleNamespace(send2trash=refuse))
    folder = write(tmp_path / "model", tiny())
    removals = Removals()
    removals.remove(folder, to_trash=True)
    assert removals.settle() == 0
    assert (folder / "config.json").is_file()


def test_what_lies_beside_a_model_in_its_folder_stays_when_it_is_deleted(tmp_path: Path) -> None:
    own = {name: content for name, content in tiny().items() if name != "README.md"}
    others = {"other-Q4_K_M.gguf": gguf(), "README.md": b"# Both", "thesis.txt": b"mine"}
    folder = write(tmp_path / "mixed", own | others)
    write(folder / "notes", {"a.txt": b"a"})
    whole = found(tmp_path / "none", tmp_path)["mixed"]
    assert {path.name for path in whole.parts} == set(own)
    assert whole.bytes == sum(map(len, own.values()))
    removals = Removals()
    removed = removals.remove(whole.root, True, whole.parts)
    assert removed.bytes == whole.bytes
    assert {path.name for path in folder.rglob("*")} == {*others, "notes", "a.txt"}
    assert list(found(tmp_path / "none", tmp_path)) == ["other-Q4_K_M"]
    removals.undo(removed)
    assert found(tmp_path / "none", tmp_path)["mixed"].parts == whole.parts


def test_a_model_that_is_alone_in_its_folder_is_deleted_with_it(tmp_path: Path) -> None:
    files = tiny() | {
        "README.md": b"It",
        "LICENSE.txt": b"MIT",
        ".gitattributes": b"",
        "preprocessor_config.json": b"{}",
    }
    write(write(tmp_path / "model", files) / ".cache" / "huggingface", {".gitignore": b"*"})
    assert found(tmp_path / "none", tmp_path)["model"].parts == ()


def test_a_place_that_was_taken_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    root = cached(tmp_path, "org/tiny", tiny())
    removals = Removals()
    removed = removals.remove(root, to_trash=False)
    cached(tmp_path, "org/tiny", tiny())
    with pytest.raises(CoppiceError, match="is there again"):
        removals.undo(removed)
    assert removed.aside.is_dir()


def test_only_a_folder_itself_is_deleted(tmp_path: Path) -> None:
    write(tmp_path / "model", tiny())
    make_link(tmp_path / "link", tmp_path / "model")
    for path in (tmp_path / "link", tmp_path / "model" / "config.json", tmp_path / "missing", Path("/")):
        with pytest.raises(CoppiceError, match="not a folder"):
            Removals().remove(path, to_trash=False)
    assert len(list((tmp_path / "model").iterdir())) == len(tiny())


def test_what_a_crash_left_aside_in_the_cache_is_removed_at_the_next_start(tmp_path: Path) -> None:
    write(tmp_path / f"{ASIDE}x", {"a": b"b"})
    cached(tmp_path, "org/tiny", tiny())
    settle_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["models--org--tiny"]
    assert json.loads((found(tmp_path)["org/tiny"].folder / "config.json").read_bytes())["model_type"] == "llama"


@pytest.fixture
def session(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LocalModels]:
    """A session of which nobody has looked what is there; it searches `lone` and `shelf`."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("app.library.local.local_models.stores_here", lambda: ())
    made = LocalModels(tmp_path / "cache", lambda: [str(tmp_path / "shelf"), str(tmp_path / "lone")])
    yield made
    made.close()


@pytest.fixture
def look(qtbot: QtBot, session: LocalModels) -> Callable[[], set[str]]:
    """Names of the models that the session finds."""

    def names() -> set[str]:
        with qtbot.waitSignal(session.changed):
            session.look()
        return {each.name for each in session.found.models}

    return names


def test_what_a_crash_left_aside_in_a_folder_of_ones_own_is_put_back(
    look: Callable[[], set[str]], tmp_path: Path
) -> None:
    shelf = tmp_path / "shelf"
    lone = write(tmp_path / "lone", tiny())
    deep = write(shelf / "owner" / "model", tiny())
    write(shelf / "mixed", {"a-Q4_K_M.gguf": gguf(), "notes.txt": b"mine"})
    removals = Removals()
    removals.remove(lone, to_trash=True)
    removals.remove(deep, to_trash=True)
    removals.remove(shelf / "mixed", True, (shelf / "mixed" / "a-Q4_K_M.gguf",))
    assert found(tmp_path / "none", shelf, lone) == {}
    assert look() == {"lone", "model", "a-Q4_K_M"}
    assert {path.name for path in deep.iterdir()} == set(tiny())
    assert [path for path in tmp_path.rglob("*") if path.name.startswith(ASIDE)] == []


def test_what_a_crash_left_aside_is_not_put_over_what_took_its_place(
    look: Callable[[], set[str]], tmp_path: Path
) -> None:
    model = write(tmp_path / "shelf" / "model", tiny())
    removed = Removals().remove(model, to_trash=True)
    write(model, {"config.json": b'{"model_type": "new"}'})
    assert look() == {"model"}
    assert [path.name for path in model.iterdir()] == ["config.json"]
    assert {path.name for path in removed.aside.iterdir()} == set(tiny())


def test_what_a_crash_left_aside_is_put_back_even_if_the_first_look_is_overtaken(
    qtbot: QtBot,
    session: LocalModels,
    look: Callable[[], set[str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def settle(*_: object) -> None:
        begun.set()
        may_go_on.wait(PATIENCE_SECONDS)

    monkeypatch.setattr("app.library.local.local_models.settle_leftovers", settle)
    Removals().remove(write(tmp_path / "shelf" / "model", tiny()), to_trash=True)
    session.look()
    assert begun.wait(PATIENCE_SECONDS)
    session.look()
    may_go_on.set()
    qtbot.waitUntil(lambda: session._jobs.idle)
    assert look() == {"model"}
    assert [path for path in tmp_path.rglob("*") if path.name.startswith(ASIDE)] == []


@pytest.mark.parametrize("to_trash", [True, False])
def test_the_first_look_leaves_what_can_still_be_put_back(
    qtbot: QtBot, session: LocalModels, tmp_path: Path, to_trash: bool
) -> None:
    root = write(tmp_path / "shelf" / "model", tiny()) if to_trash else cached(tmp_path / "hub", "org/tiny", tiny())
    removed: list[Removed] = []
    session.removed.connect(lambda _key, each: removed.append(each))
    with qtbot.waitSignal(session.changed):  # a look follows a removal
        session.remove("key", root, to_trash)
    assert session.found == Found()
    with qtbot.waitSignal(session.changed):
        session.undo(removed[0])
    assert [each.root for each in session.found.models] == [root]


@pytest.mark.parametrize(
    ("kind", "settings", "sight"),
    [
        ("qwen3_vl", {"preprocessor_config.json": b'{"size": {}}'}, Sight.READS),
        ("qwen3_vl", {"processor_config.json": b'{"image_processor": {"size": {}}}'}, Sight.READS),
        ("qwen3_vl", {"processor_config.json": b'{"image_seq_length": 9}'}, Sight.LACKS_SETTINGS),
        ("qwen3_vl", {"preprocessor_config.json": b"\xff"}, Sight.LACKS_SETTINGS),
        ("qwen3_vl", {}, Sight.LACKS_SETTINGS),
        ("llama", {"preprocessor_config.json": b'{"size": {}}'}, Sight.NONE),
    ],
)
def test_whether_a_model_reads_pictures(kind: str, settings: dict[str, bytes], sight: Sight, tmp_path: Path) -> None:
    write(tmp_path / "model", tiny(model_type=kind) | settings)
    assert found(tmp_path / "none", tmp_path)["model"].sight is sight
