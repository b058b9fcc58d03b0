"""Where models may lie on this computer: the hub's cache, and any folder that a person has named."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.library.local.models import Home, LocalModel, read_model
from app.system.background import Stop

_log = logging.getLogger(__name__)

CONFIG = "config.json"
_PREFIX = "models--"
_DEPTH = 3  # a folder of models, perhaps by owner
_MOST_FOLDERS = 20_000


def hub_cache() -> Path:
    """The cache that the hub's tools share, as HF_HOME and HF_HUB_CACHE place it."""
    from huggingface_hub import constants  # noqa: PLC0415  # a fifth of a second

    return Path(constants.HF_HUB_CACHE)


def find_models(cache: Path, folders: Sequence[Path], stop: Stop) -> Iterator[LocalModel]:
    """Every model in the hub's cache, then in each of the folders. Blocks on the disk; raises `Cancelled`."""
    yield from _cached(cache, stop)
    for folder in folders:
        for found in _folders_of_models(folder, stop):
            yield read_model(found, Home.FOLDER, found.name, str(found), found)


def _cached(cache: Path, stop: Stop) -> Iterator[LocalModel]:
    for root in sorted(cache.glob(f"{_PREFIX}*")) if cache.is_dir() else ():
        stop.check()
        repo = root.name.removeprefix(_PREFIX).replace("--", "/", 1)
        snapshot = _snapshot(root)
        if snapshot is not None and "/" in repo:
            yield read_model(snapshot, Home.HUB_CACHE, repo, repo, root)


def _snapshot(root: Path) -> Path | None:
    """The commit that the branch `main` is at, which is what the engine loads; else the newest one."""
    try:
        commit = (root / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        commit = ""
    snapshots = [path for path in (root / "snapshots").glob("*") if (path / CONFIG).is_file()]
    current = [path for path in snapshots if path.name == commit]
    return max(current or snapshots, key=lambda path: path.stat().st_mtime, default=None)


def _folders_of_models(folder: Path, stop: Stop) -> Iterator[Path]:
    """The folder itself if it holds a model, else those inside that do; never far down, and links are not followed."""
    waiting = [(folder, 0)]
    visited = 0
    while waiting:
        stop.check()
        here, depth = waiting.pop()
        visited += 1
        if (here / CONFIG).is_file():
            yield here
        elif depth < _DEPTH and visited < _MOST_FOLDERS:
            waiting += ((inside, depth + 1) for inside in reversed(_inside(here)))


def _inside(folder: Path) -> list[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        _log.info("The folder %s cannot be looked into: %s", folder, error)
        return []
    return [path for path in entries if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")]
