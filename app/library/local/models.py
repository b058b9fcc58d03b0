"""Models and prepared copies on this computer: where they may lie, and what their folders tell at a glance."""

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from app.hub.formats import FLOAT32, PLAIN, PYTORCH, stored_format
from app.hub.names import INDEX, QUANTIZATION, SINGLE, is_writable
from app.i18n.translation import tr
from app.library.local.completeness import damage_of_safetensors
from app.system.background import Stop
from app.system.json_text import count, read_object, text
from engine.protocol.heads import is_eagle3
from engine.protocol.pictures import OF_PICTURES, PICTURE_FAMILIES, PICTURE_SETTINGS, PROCESSOR_SETTINGS
from engine.protocol.variants import snapshots_in_cache

_log = logging.getLogger(__name__)

CONFIG = "config.json"
_MOST_BYTES = 64 << 20
_MOST_SETTINGS_BYTES = 1 << 20
_NOT_OPENED = (".bin", ".pt", ".pth", ".ckpt", ".h5")


class Home(Enum):
    """Whose folder a model lies in, which decides how it is deleted."""

    HUB_CACHE = "hub cache"
    FOLDER = "folder"
    LM_STUDIO = "LM Studio"
    OLLAMA = "Ollama"
    JAN = "Jan"
    LLAMA_CPP = "llama.cpp"

    @property
    def is_of_another_app(self) -> bool:
        """Whether another program keeps it: it is used in place, and never deleted here."""
        return self not in (Home.HUB_CACHE, Home.FOLDER)

    @property
    def remedy(self) -> str:
        """What to do where a model in it is not whole."""
        if self is Home.HUB_CACHE:
            return tr(
                "“Verify” finds what is damaged and downloads it again; or delete the model, and download it anew."
            )
        if self.is_of_another_app:
            return tr("Download it again in {app}.").format(app=self.value)
        return tr("Copy its files into the folder again, or download them again.")


class Sight(Enum):
    """Whether a model reads pictures: it would, but for the files that say how, if they were never downloaded."""

    NONE = "none"
    LACKS_SETTINGS = "lacks settings"
    READS = "reads"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """`source` is what the engine loads; `folder` holds its files, and `root` all that deleting would take away.

    `bytes`: on disk; `changed`: when its newest file was written, in seconds since 1970; `problem`: why it cannot be
    loaded, empty if nothing speaks against it, and `remedy` what to do then; `format`: of its weights, as people call
    it; `files`: of a model in GGUF files, these; `parts`: what deleting takes away where `root` holds other models too;
    `alias`: another source of it; `is_head`: it drafts for another model, and is none by itself; `resolved`: its place
    without links, as prepared copies name what they were made from.
    """

    source: str
    name: str
    home: Home
    folder: Path
    root: Path
    bytes: int
    changed: float
    model_type: str = ""
    problem: str = ""
    remedy: str = ""
    format: str = PLAIN
    files: tuple[Path, ...] = ()
    parts: tuple[Path, ...] = ()
    alias: str = ""
    is_head: bool = False
    resolved: str = ""
    sight: Sight = Sight.NONE

    @property
    def names(self) -> frozenset[str]:
        """Every source that means it."""
        return frozenset(filter(None, (self.source, self.alias, self.resolved)))

    @property
    def place(self) -> Path:
        """Where its tokenizer is: its folder, or its GGUF file."""
        return self.files[0] if self.files else self.folder


def read_model(folder: Path, home: Home, name: str, source: str, root: Path) -> LocalModel:
    """The model in a folder that holds a config.json."""
    model_type, stored, is_head, problem = _config(folder)
    problem = problem or _missing(folder)
    stored = stored if _has_safetensors(folder) else PYTORCH if _not_opened(folder) else ""
    remedy = tr("Look for it in safetensors or GGUF.") if stored == PYTORCH else home.remedy
    files = list(_files(root))
    return LocalModel(
        source=source,
        name=name,
        home=home,
        folder=folder,
        root=root,
        bytes=sum(state.st_size for state in files),
        changed=max((state.st_mtime for state in files), default=0.0),
        model_type=model_type,
        problem=problem,
        remedy=remedy if problem else "",
        format=stored,
        is_head=is_head,
        resolved=str(folder.resolve()),
        sight=_sight(folder, model_type) if _has_safetensors(folder) else Sight.NONE,
    )


def _sight(folder: Path, model_type: str) -> Sight:
    if model_type not in PICTURE_FAMILIES:
        return Sight.NONE
    own, whole = (_settings(folder / name) for name in (PICTURE_SETTINGS, PROCESSOR_SETTINGS))
    return Sight.READS if own or whole.get(OF_PICTURES) else Sight.LACKS_SETTINGS


def _settings(path: Path) -> dict[str, object]:
    try:
        return read_object(path, _MOST_SETTINGS_BYTES)
    except (OSError, ValueError):
        return {}


def bytes_below(root: Path) -> int:
    """What a folder takes; files with several names count once, links not at all."""
    return sum(state.st_size for state in _files(root))


def _files(root: Path) -> Iterator[os.stat_result]:
    seen = set()
    for path in root.rglob("*") if root.is_dir() else ():
        try:
            state = path.lstat()
        except OSError:
            continue
        if path.is_symlink() or not path.is_file() or (state.st_dev, state.st_ino) in seen:
            continue
        seen.add((state.st_dev, state.st_ino))
        yield state


def _config(folder: Path) -> tuple[str, str, bool, str]:
    """The family, the format of the weights, whether it is a head, and what is wrong with config.json."""
    try:
        config = read_object(folder / CONFIG, _MOST_BYTES)
    except (OSError, ValueError):
        return "", PLAIN, False, tr("Its config.json cannot be read.")
    described, model_type = config.get("quantization_config"), text(config.get("model_type"), 60)
    if not described:
        with suppress(OSError, ValueError):
            described = read_object(folder / QUANTIZATION, _MOST_BYTES)
    stored = stored_format(described) if isinstance(described, dict) else ""
    plain = FLOAT32 if "float32" in (config.get("dtype"), config.get("torch_dtype")) else PLAIN
    is_head = is_eagle3(config)
    problem = "" if model_type or is_head else tr("Its config.json names no model_type.")
    return model_type, stored or plain, is_head, problem


def _missing(folder: Path) -> str:
    """What is missing of its weights, or cut off, as a sentence; empty if they are whole."""
    if (folder / SINGLE).is_file():
        return damage_of_safetensors([folder / SINGLE])
    try:
        weight_map = read_object(folder / INDEX, _MOST_BYTES).get("weight_map")
    except FileNotFoundError:
        others = _not_opened(folder)
        if not others:
            return tr("Its weights are missing.")
        return tr("Only safetensors are opened, not {name}.").format(name=text(others[0], 60))
    except (OSError, ValueError):
        return tr("Its index of weight files cannot be read.")
    names = {str(name) for name in weight_map.values()} if isinstance(weight_map, dict) else set()
    missing = [name for name in names if not is_writable(name) or not (folder / name).is_file()]
    if names and not missing:
        return damage_of_safetensors(folder / name for name in sorted(names))
    return tr("{missing} of {count} weight files are missing.").format(missing=len(missing), count=len(names))


def _has_safetensors(folder: Path) -> bool:
    return (folder / SINGLE).is_file() or (folder / INDEX).is_file()


def _not_opened(folder: Path) -> list[str]:
    """The names of weight files that are never opened: they could run code."""
    return sorted(path.name for path in folder.iterdir() if path.suffix in _NOT_OPENED)


_MOST_FOLDERS = 20_000


def snapshot_of(root: Path) -> Path | None:
    """The commit that the engine loads: the one that the branch `main` is at, else the newest one."""
    return next(filter(has_config, snapshots_in_cache(root)), None)


def folders_below(folder: Path, most_depth: int, stop: Stop) -> Iterator[Path]:
    """The folder itself and those inside, but not inside a model; never far down, and links are not followed."""
    waiting = [(folder, 0)]
    visited = 0
    while waiting:
        stop.check()
        here, depth = waiting.pop()
        visited += 1
        yield here
        if depth < most_depth and visited < _MOST_FOLDERS and not has_config(here):
            waiting += ((inside, depth + 1) for inside in reversed(_inside(here)))


def has_config(folder: Path) -> bool:
    """Whether a folder holds a config.json, and may be looked into."""
    try:
        return (folder / CONFIG).is_file()
    except OSError:
        return False


def _inside(folder: Path) -> list[Path]:
    try:
        entries = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        _log.info("The folder %s cannot be looked into: %s", folder, error)
        return []
    return [path for path in entries if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")]


_MANIFEST, _KIND = "manifest.json", "coppice prepared layers"
_MOST_MANIFEST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class PreparedCopy:
    """A model's layers in another number type, such as `nf4` (`weights`); `source`: the folder they were made from."""

    folder: Path
    name: str
    source: str
    weights: str
    bytes: int
    layers: int
    complete: bool
    digests: tuple[tuple[str, str], ...] = ()


def find_prepared(cache: Path) -> tuple[PreparedCopy, ...]:
    """Every prepared copy in the application's cache folder, incomplete ones too."""
    folder = cache / "prepared"
    found = (_read(path) for path in sorted(folder.iterdir())) if folder.is_dir() else ()
    return tuple(filter(None, found))


def _read(folder: Path) -> PreparedCopy | None:
    path = folder / _MANIFEST
    if folder.is_symlink() or path.is_symlink():
        return None
    try:
        content = read_object(path, _MOST_MANIFEST_BYTES)
    except (OSError, ValueError):
        return None
    recipe, layers = content.get("recipe"), content.get("layers")
    if content.get("kind") != _KIND or not isinstance(recipe, dict) or not isinstance(layers, dict):
        return None
    entries = {index: entry for index, entry in layers.items() if index.isdecimal() and isinstance(entry, dict)}
    codec, number = text(recipe.get("codec"), 20), text(recipe.get("dtype"), 20)
    return PreparedCopy(
        folder=folder,
        name=text(recipe.get("name")),
        source=text(recipe.get("source"), 4096),
        weights=number if codec == "plain" else codec,
        bytes=sum(count(entry.get("nbytes")) for entry in entries.values()),
        layers=count(recipe.get("layer_count")),
        complete=content.get("complete") is True,
        digests=tuple(
            (f"layer-{int(index):05}.safetensors", text(entry.get("digest"), 64)) for index, entry in entries.items()
        ),
    )
