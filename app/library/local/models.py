"""A model on this computer, and what its folder tells of it at a glance."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from app.hub.listing import INDEX, SINGLE, is_file_name
from app.i18n.translation import tr
from app.system.json_text import parse_object, text

_MOST_BYTES = 64 << 20
_NOT_OPENED = (".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5")


class Home(Enum):
    """Whose folder a model lies in, which decides how it is deleted."""

    HUB_CACHE = "hub cache"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """`source` is what the engine loads; `folder` holds config.json, and `root` all that deleting would take away.

    `bytes`: on disk; `last_used`: seconds since 1970, as the file system knows it; `problem`: why it cannot be loaded,
    empty if nothing speaks against it.
    """

    source: str
    name: str
    home: Home
    folder: Path
    root: Path
    bytes: int
    last_used: float
    model_type: str = ""
    problem: str = ""


def read_model(folder: Path, home: Home, name: str, source: str, root: Path) -> LocalModel:
    """The model in a folder that holds a config.json."""
    config, problem = _config(folder)
    files = list(_files(root))
    return LocalModel(
        source=source,
        name=name,
        home=home,
        folder=folder,
        root=root,
        bytes=sum(state.st_size for state in files),
        last_used=max((max(state.st_atime, state.st_mtime) for state in files), default=0.0),
        model_type=config,
        problem=problem or _missing(folder),
    )


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


def _config(folder: Path) -> tuple[str, str]:
    """The family, and what is wrong with config.json."""
    try:
        model_type = text(_object(folder / "config.json").get("model_type"), 60)
    except (OSError, ValueError):
        return "", tr("Its config.json cannot be read.")
    return model_type, "" if model_type else tr("Its config.json names no model_type.")


def _missing(folder: Path) -> str:
    """What is missing of its weights, as a sentence; empty if nothing is."""
    if (folder / SINGLE).is_file():
        return ""
    try:
        weight_map = _object(folder / INDEX).get("weight_map")
    except FileNotFoundError:
        others = sorted(path.name for path in folder.iterdir() if path.suffix in _NOT_OPENED)
        if not others:
            return tr("Its weights are missing.")
        return tr("Only safetensors are opened, not {name}.").format(name=text(others[0], 60))
    except (OSError, ValueError):
        return tr("Its index of weight files cannot be read.")
    names = {str(name) for name in weight_map.values()} if isinstance(weight_map, dict) else set()
    missing = [name for name in names if not is_file_name(name) or not (folder / name).is_file()]
    if names and not missing:
        return ""
    return tr("{missing} of {count} weight files are missing.").format(missing=len(missing), count=len(names))


def _object(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        return parse_object(file.read(_MOST_BYTES))
