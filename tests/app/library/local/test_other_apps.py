"""Models of other programs: found where these keep them, on every platform, and never outside."""

import hashlib
import json
from pathlib import Path

import pytest

from app.library.local.models import Home, LocalModel
from app.library.local.other_apps import Store, find_stores
from app.library.local.scan import find_models
from app.library.local.verification import verify_model
from app.system.background import Stop
from tests.app.hub.ggufs import gguf
from tests.app.library.local.folders import write
from tests.links import make_link

STOP = Stop()


def found(*stores: Store) -> dict[str, LocalModel]:
    return {model.name: model for model in find_models(Path("/none"), (), STOP, stores)}


def manifest(store: Path, name: str, *layers: tuple[str, str], digest: str = "") -> Path:
    """A manifest of Ollama and the blobs of its layers, given as (kind, content)."""
    described = []
    for kind, content in layers:
        made = hashlib.sha256(content.encode("latin-1")).hexdigest()
        write(store / "blobs", {f"sha256-{made}": content.encode("latin-1")})
        media = f"application/vnd.ollama.image.{kind}"
        described.append({"mediaType": media, "digest": digest or f"sha256:{made}", "size": len(content)})
    path = store / "manifests" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schemaVersion": 2, "layers": described}))
    return path


WEIGHTS = ("model", gguf(general__file_type=15).decode("latin-1"))


def test_lm_studio_has_them_by_publisher_and_repository(tmp_path: Path) -> None:
    folder = write(tmp_path / "org" / "Tiny-GGUF", {"Tiny-Q4_K_M.gguf": gguf(), "mmproj-F16.gguf": gguf()})
    write(tmp_path / "org" / "Split-GGUF", {"S-Q8_0-00001-of-00002.gguf": gguf(), "S-Q8_0-00002-of-00002.gguf": gguf()})
    write(tmp_path / "org" / "Half-GGUF", {"H-Q8_0-00001-of-00002.gguf": gguf()})
    models = found(Store(Home.LM_STUDIO, tmp_path))
    assert set(models) == {"org/Tiny-GGUF:Q4_K_M", "org/Split-GGUF:Q8_0", "org/Half-GGUF:Q8_0"}
    tiny = models["org/Tiny-GGUF:Q4_K_M"]
    assert (tiny.source, tiny.home, tiny.format) == (str(folder / "Tiny-Q4_K_M.gguf"), Home.LM_STUDIO, "GGUF Q4_K_M")
    assert (tiny.model_type, tiny.problem, tiny.bytes) == ("llama", "", len(gguf()))
    assert models["org/Split-GGUF:Q8_0"].bytes == 2 * len(gguf())
    assert "1 of 2 weight files are missing" in models["org/Half-GGUF:Q8_0"].problem
    assert models["org/Half-GGUF:Q8_0"].remedy == "Download it again in LM Studio."


def test_ollamas_manifests_lead_to_blobs(tmp_path: Path) -> None:
    manifest(tmp_path, "registry.ollama.ai/library/tiny/8b", WEIGHTS, ("template", "{{ .Prompt }}"))
    manifest(tmp_path, "registry.ollama.ai/library/tiny/latest", WEIGHTS)
    manifest(tmp_path, "hf.co/org/tiny/Q8_0", ("model", gguf(padding=3).decode("latin-1")))
    manifest(
        tmp_path, "registry.ollama.ai/ada/tuned/latest", ("model", gguf(padding=5).decode("latin-1")), ("adapter", "x")
    )
    oss = ("model", gguf(general__architecture="gptoss", general__file_type=4).decode("latin-1"))
    manifest(
        tmp_path, "registry.ollama.ai/library/oss/20b", oss, ("projector", gguf().decode("latin-1")), ("draft", "x")
    )
    models = found(Store(Home.OLLAMA, tmp_path))
    assert set(models) == {"tiny:8b", "hf.co/org/tiny:Q8_0", "ada/tuned:latest", "oss:20b"}, "each blob once"
    assert (models["oss:20b"].problem, models["oss:20b"].format) == ("", "GGUF MXFP4"), "what Ollama means by 4"
    tiny = models["tiny:8b"]
    assert tiny.source.startswith(str(tmp_path / "blobs" / "sha256-"))
    assert (tiny.format, tiny.model_type, tiny.problem) == ("GGUF Q4_K_M", "llama", "")
    assert "adapter" in models["ada/tuned:latest"].problem
    assert "without the adapter" in models["ada/tuned:latest"].remedy
    assert not tiny.remedy
    *_, last = verify_model(tiny, STOP)
    assert (last.damaged, last.unknown, last.total_bytes) == ((), 0, tiny.bytes)
    Path(tiny.source).write_bytes(gguf(general__file_type=14))
    *_, last = verify_model(tiny, STOP)
    assert last.damaged == (Path(tiny.source).name,)


@pytest.mark.parametrize(
    "digest", ["sha256:../../../etc/passwd", "sha256:" + "A" * 64, "sha256:" + "0" * 64, "md5:" + "0" * 32, ""]
)
def test_a_manifest_that_leads_elsewhere_is_no_model(digest: str, tmp_path: Path) -> None:
    made = manifest(tmp_path, "registry.ollama.ai/library/tiny/8b", WEIGHTS, digest=digest or "x")
    assert found(Store(Home.OLLAMA, tmp_path)) == {}
    for content in (
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"layers": 7}',
        b'{"layers": [7, {"digest": []}]}',
        b" " * (2 << 20),
    ):
        made.write_bytes(content)
        assert found(Store(Home.OLLAMA, tmp_path)) == {}


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    secret = write(tmp_path / "elsewhere", {"Secret-Q8_0.gguf": gguf()})
    store = write(tmp_path / "store" / "org" / "repo", {})
    make_link(store / "Secret-Q8_0.gguf", secret / "Secret-Q8_0.gguf")
    make_link(tmp_path / "store" / "org" / "all", secret)
    assert found(Store(Home.LM_STUDIO, tmp_path / "store")) == {}
    blobs = write(tmp_path / "ollama" / "blobs", {})
    made = manifest(tmp_path / "ollama", "registry.ollama.ai/library/tiny/8b", WEIGHTS)
    (blob,) = blobs.iterdir()
    blob.unlink()
    make_link(blob, secret / "Secret-Q8_0.gguf")
    assert found(Store(Home.OLLAMA, tmp_path / "ollama")) == {}
    assert made.is_file()


def test_what_is_no_gguf_says_so_and_a_projector_is_no_model(tmp_path: Path) -> None:
    write(tmp_path, {"broken-Q8_0.gguf": b"version https://git-lfs", "eyes.gguf": gguf(general__architecture="clip")})
    models = found(Store(Home.LLAMA_CPP, tmp_path))
    assert set(models) == {"broken-Q8_0"}
    assert "no GGUF file" in models["broken-Q8_0"].problem


JAN_MODELS = Path("Jan", "data", "llamacpp", "models")


def jan(folder: Path, name: str, described: str, files: dict[str, bytes] | None = None) -> Path:
    """A model in Jan's folder; returns where it lies."""
    return write(folder / JAN_MODELS / name, {"model.yml": described.encode(), **(files or {})})


def test_jan_describes_its_models(tmp_path: Path) -> None:
    own = "model_path: llamacpp/models/org/Own-Q4_K_M/model.gguf\nname: Own\nsize_bytes: 7\n"
    folder = jan(tmp_path, "org/Own-Q4_K_M", own, {"model.gguf": gguf(), "mmproj.gguf": gguf()})
    write(tmp_path / "mine", {"S-Q8_0-00001-of-00002.gguf": gguf(), "S-Q8_0-00002-of-00002.gguf": gguf()})
    jan(tmp_path, "split", f"name: it's\nmodel_path: '{tmp_path}/mine/S-Q8_0-00001-of-00002.gguf' \n")
    write(tmp_path / "mine" / "it's # one", {"own.gguf": gguf()})
    jan(tmp_path, "quoted", "model_path: " + json.dumps(f"{tmp_path}/mine/it's # one/own.gguf"))
    write(tmp_path / "Jan" / "data" / "models", {"old.gguf": gguf()})
    jan(tmp_path, "old", "files:   # paths\n  - models/old.gguf\n")
    models = found(Store(Home.JAN, tmp_path / JAN_MODELS))
    assert set(models) == {"org/Own-Q4_K_M", "split", "quoted", "old"}
    assert models["org/Own-Q4_K_M"].files == (folder / "model.gguf",)
    assert (models["split"].bytes, models["split"].home) == (2 * len(gguf()), Home.JAN)
    assert (models["split"].source, models["split"].problem) == (f"{tmp_path}/mine/S-Q8_0-00001-of-00002.gguf", "")


NO_MODELS = [
    "", "name: x", "model_path:", "model_path: 7", "- model_path: x.gguf", " model_path: {file}", "model_path: [",
    "model_path: *{file}", "model_path: {{a: {file}}}", "model_path: '{file}", "model_path: 'a'b'", 'model_path: "',
    "model_path: {file}\nmodel_path: {file}", "model_path: llamacpp/../../../mine/M-Q8_0.gguf", "model_path: /",
    "model_path: {file}x", "model_path: /{file}", r'model_path: "\\\\server\\M-Q8_0.gguf"', "files:\n- [a]", "files: a",
    "model_path: " + "x" * (1 << 19), "model_path: \udcff", r'model_path: "\u0000"', "model_path: {notes}",
]  # fmt: skip


@pytest.mark.parametrize("described", NO_MODELS, ids=range(len(NO_MODELS)))
def test_a_description_that_is_none_is_no_model(described: str, tmp_path: Path) -> None:
    write(tmp_path / "mine", {"M-Q8_0.gguf": gguf(), "notes.txt": b"x"})
    file, notes = str(tmp_path / "mine" / "M-Q8_0.gguf"), str(tmp_path / "mine" / "notes.txt")
    folder = jan(tmp_path, "it", "")
    content = described.replace("{file}", file).replace("{notes}", notes)
    (folder / "model.yml").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert found(Store(Home.JAN, tmp_path / JAN_MODELS)) == {}


def test_lm_studios_settings_name_a_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    write(home / ".lmstudio", {"settings.json": json.dumps({"downloadsFolder": str(tmp_path / "big")}).encode()})
    write(home / ".config" / "LM Studio", {"settings.json": b"{"})
    write(home, {".lmstudio-home-pointer": f"{tmp_path / 'moved'}\n".encode()})
    write(tmp_path / "moved", {"settings.json": json.dumps({"downloadsFolder": "not/whole"}).encode()})
    folders = [store.folder for store in find_stores(home, {}, "linux") if store.home is Home.LM_STUDIO]
    usual = [home / ".lmstudio" / "models", home / ".cache" / "lm-studio" / "models"]
    assert folders == [tmp_path / "moved" / "models", *usual, tmp_path / "big"]


@pytest.mark.parametrize(
    "settings", [b"[]", b"{", b'{"downloadsFolder": 7}', b'{"downloadsFolder": "//server/models"}', b" " * (1 << 20)]
)
def test_settings_that_name_no_folder_change_nothing(settings: bytes, tmp_path: Path) -> None:
    before = find_stores(tmp_path, {}, "linux")
    write(tmp_path / ".lmstudio", {"settings.json": settings})
    write(tmp_path, {".lmstudio-home-pointer": settings})
    assert find_stores(tmp_path, {}, "linux") == before


def test_the_folders_are_those_of_each_platform() -> None:
    home = Path("/home/ada")

    def places(platform: str, **variables: str) -> dict[Home, list[str]]:
        stores = find_stores(home, variables, platform)
        return {each: [str(store.folder) for store in stores if store.home is each] for each in Home}

    linux = places("linux")
    assert linux[Home.LM_STUDIO] == ["/home/ada/.lmstudio/models", "/home/ada/.cache/lm-studio/models"]
    assert linux[Home.OLLAMA] == ["/home/ada/.ollama/models", "/usr/share/ollama/.ollama/models"]
    assert linux[Home.JAN][0] == "/home/ada/.local/share/Jan/data/llamacpp/models"
    assert linux[Home.LLAMA_CPP] == ["/home/ada/.cache/llama.cpp"]
    mac = places("darwin", OLLAMA_MODELS="/big/ollama")
    assert mac[Home.OLLAMA][0] == "/big/ollama"
    assert mac[Home.JAN][0] == "/home/ada/Library/Application Support/Jan/data/llamacpp/models"
    assert mac[Home.LLAMA_CPP] == ["/home/ada/Library/Caches/llama.cpp"]
    windows = places("win32", APPDATA="/r", LOCALAPPDATA="/l", LLAMA_CACHE="/big/llama")
    assert windows[Home.JAN][0] == "/r/Jan/data/llamacpp/models"
    assert windows[Home.LLAMA_CPP] == ["/big/llama"]
