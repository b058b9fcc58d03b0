"""Models that other programs on this computer have fetched: found in their folders, used in place, never changed."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.i18n.translation import tr
from app.library.local.app_settings import downloads_folder, named_gguf, pointed_folder
from app.library.local.gguf_models import files_in, gguf_models_in, read_gguf
from app.library.local.models import Home, LocalModel, folders_below
from app.system.background import Stop
from app.system.json_text import read_object, text
from engine.protocol.variants import find_variants, ollama_name

_DEPTH = 4
_MOST_MANIFESTS = 5_000
_MOST_MANIFEST_BYTES = 1 << 20
_MOST_LAYERS = 100
_WEIGHTS, _ADAPTER = "application/vnd.ollama.image.model", "application/vnd.ollama.image.adapter"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of another program."""

    home: Home
    folder: Path


def find_stores(home: Path, environment: dict[str, str], platform: str = sys.platform) -> tuple[Store, ...]:
    """Where other programs keep their models on this platform, whether the folders exist or not.

    `home`: the person's folder; the variables are those that the programs themselves look at. LM Studio's own settings
    are read, for they may name another folder.
    """
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    if platform == "darwin":
        data, cache = home / "Library" / "Application Support", home / "Library" / "Caches"
        config = data
    elif platform == "win32":
        config = data = Path(environment.get("APPDATA") or home / "AppData" / "Roaming")
        cache = Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    ollama = [Path(environment["OLLAMA_MODELS"])] if environment.get("OLLAMA_MODELS") else []
    ollama += [home / ".ollama" / "models"]
    if platform == "linux":
        ollama.append(Path("/usr/share/ollama/.ollama/models"))  # of the service, if it may be read
    llama = Path(environment["LLAMA_CACHE"]) if environment.get("LLAMA_CACHE") else cache / "llama.cpp"
    jan = [data / "Jan" / "data" / "llamacpp" / "models", home / "jan" / "models"]
    return (
        *(Store(Home.LM_STUDIO, folder) for folder in _lm_studio(home, config)),
        *(Store(Home.OLLAMA, folder) for folder in ollama),
        *(Store(Home.JAN, folder) for folder in jan),
        Store(Home.LLAMA_CPP, llama),
    )


def _lm_studio(home: Path, config: Path) -> list[Path]:
    """The folders of all its versions, and those that their settings name, each once."""
    pointed = pointed_folder(home / ".lmstudio-home-pointer")
    homes = [*([pointed] if pointed else []), home / ".lmstudio", home / ".cache" / "lm-studio"]
    named = [downloads_folder(folder / "settings.json") for folder in (*homes, config / "LM Studio")]
    return list(dict.fromkeys([*(folder / "models" for folder in homes), *filter(None, named)]))


def stores_here() -> tuple[Store, ...]:
    """Those of this person on this computer; none for somebody without a home."""
    try:
        return find_stores(Path.home(), dict(os.environ))
    except RuntimeError:
        return ()


def models_of_other_apps(stores: Sequence[Store], stop: Stop) -> Iterator[LocalModel]:
    """Every model in the folders of other programs. Blocks on the disk; raises `Cancelled`."""
    for store in stores:
        if store.home is Home.OLLAMA:
            yield from _in_ollama(store.folder, stop)
            continue
        for folder in folders_below(store.folder, _DEPTH, stop):
            described = _jan_model(store, folder) if store.home is Home.JAN else None
            if described:
                yield described
            for model in gguf_models_in(folder, store.home, store.folder, _prefix(store, folder)):
                if described is None or model.files != described.files:
                    yield model


def _prefix(store: Store, folder: Path) -> str:
    """How the program calls the models in a folder: by publisher and repository; llama.cpp by their files alone."""
    return "" if store.home is Home.LLAMA_CPP else folder.relative_to(store.folder).as_posix().removeprefix(".")


def _jan_model(store: Store, folder: Path) -> LocalModel | None:
    """The model that Jan's description in a folder names: in its own folder, or where the person has it."""
    data = store.folder.parent  # of older versions; now models of different engines are apart
    path = named_gguf(folder / "model.yml", data.parent if data.name == "llamacpp" else data)
    if path is None:
        return None
    variants = find_variants(each.name for each in files_in(path.parent, path.parent))
    variant = next((each for each in variants if path.name in each.files), None)
    if variant is None:
        return None
    files = tuple(path.parent / name for name in variant.files)
    name = _prefix(store, folder) or variant.stem
    return read_gguf(files, store.home, name, str(files[0]), missing=variant.part_count - len(files))


def _in_ollama(store: Path, stop: Stop) -> Iterator[LocalModel]:
    """A manifest, HOST/NAMESPACE/MODEL/TAG, names the layers of a model; its weights are a blob in the GGUF format."""
    seen: set[Path] = set()
    for number, manifest in enumerate(_manifests(store / "manifests")):
        stop.check()
        if number >= _MOST_MANIFESTS:
            return
        layers = _layers(manifest)
        blobs = [path for kind, path in layers if kind == _WEIGHTS]
        if len(blobs) != 1 or blobs[0] in seen:
            continue
        seen.add(blobs[0])
        found = _ollama_model(store, manifest, blobs[0])
        if found is not None and any(kind == _ADAPTER for kind, _ in layers):
            words = tr("It consists of a model and an adapter, which cannot be put together here.")
            found = replace(found, problem=words, remedy=tr("Choose the model without the adapter."))
        if found is not None:
            yield found


def _ollama_model(store: Path, manifest: Path, blob: Path) -> LocalModel | None:
    path = store / "blobs" / blob
    try:
        if not path.is_file() or not path.resolve().is_relative_to(store.resolve()):
            return None
        return read_gguf(
            (path,), Home.OLLAMA, text(ollama_name(*manifest.relative_to(store / "manifests").parts)), str(path)
        )
    except (OSError, RuntimeError):
        return None


def _manifests(folder: Path) -> Iterator[Path]:
    try:
        for path in sorted(folder.glob("*/*/*/*")):
            if path.is_file() and not path.is_symlink():
                yield path
    except OSError:
        return


def _layers(manifest: Path) -> list[tuple[str, Path]]:
    """Kind and blob of each layer; none where the manifest is not one."""
    try:
        layers: Any = read_object(manifest, _MOST_MANIFEST_BYTES).get("layers")
    except (OSError, ValueError):
        return []
    found = []
    for layer in layers[:_MOST_LAYERS] if isinstance(layers, list) else ():
        match = _DIGEST.fullmatch(str(layer.get("digest"))) if isinstance(layer, dict) else None
        if match:
            found.append((text(layer.get("mediaType")).partition(";")[0], Path(f"sha256-{match[1]}")))
    return found
