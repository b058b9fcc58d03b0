"""Looks for every model on this computer: the hub's cache, a person's folders, and those of other programs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from app.hub.names import choose
from app.hub.place import CACHE_PREFIX
from app.library.local.gguf_models import cached_gguf_models, gguf_models_in, links_of
from app.library.local.models import CONFIG, Home, LocalModel, folders_below, has_config, read_model, snapshot_of
from app.library.local.other_apps import Store, models_of_other_apps
from app.system.background import Stop
from engine.protocol.variants import PROJECTOR

_DEPTH = 3  # a folder of models, perhaps by owner
_OF_REPOSITORIES = (
    "*.safetensors", "*.json", "*.jinja", "*.model", "*.py", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "merges.txt",
    "vocab.txt", "readme*", "license*", "notice*", ".gitattributes", ".gitignore", ".ds_store",
)  # fmt: skip
_FOLDERS_OF_REPOSITORIES = (".cache", ".git")  # what `hf download` and `git clone` leave in it


def find_models(cache: Path, folders: Sequence[Path], stop: Stop, stores: Sequence[Store] = ()) -> Iterator[LocalModel]:
    """Every model in the hub's cache, then in each of the folders, then in those of other programs; each source once.

    Blocks on the disk; raises `Cancelled`.
    """
    seen: set[str] = set()
    for model in _all(cache, folders, stop, stores):
        if model.source not in seen:
            seen.add(model.source)
            yield model


def folders_to_search(folders: Sequence[Path], stop: Stop) -> Iterator[Path]:
    """Where models may lie: beside each of a person's folders, which may be a model itself, in it, and below."""
    for folder in folders:
        yield folder.parent
        yield from folders_below(folder, _DEPTH, stop)


def _all(cache: Path, folders: Sequence[Path], stop: Stop, stores: Sequence[Store]) -> Iterator[LocalModel]:
    for root in sorted(cache.glob(f"{CACHE_PREFIX}*")) if cache.is_dir() else ():
        stop.check()
        repo = root.name.removeprefix(CACHE_PREFIX).replace("--", "/", 1)
        if "/" in repo:
            yield from _cached(root, repo)
    for folder in folders:
        for found in folders_below(folder, _DEPTH, stop):
            yield from _in_folder(found)
    yield from models_of_other_apps(stores, stop)


def _cached(root: Path, repo: str) -> Iterator[LocalModel]:
    """What a repository has here: its safetensors files, and its variants, each deleted without the others."""
    variants = list(cached_gguf_models(root, repo))
    snapshot = snapshot_of(root)
    if snapshot is not None and _is_model(snapshot, bool(variants)):
        whole = read_model(snapshot, Home.HUB_CACHE, repo, repo, root)
        if not variants:
            yield whole
            return
        others = {path for each in variants for path in links_of(root, each.files)}
        files = (path for path in sorted((root / "snapshots").rglob("*")) if path.is_file() and path not in others)
        parts = tuple(path for path in files if PROJECTOR not in path.name.casefold())  # it reads for the variants
        yield replace(whole, parts=parts, bytes=whole.bytes - sum(each.bytes for each in variants))
    elif len(variants) == 1:
        yield variants[0]
        return
    yield from (replace(each, parts=links_of(root, each.files)) for each in variants)


def _in_folder(folder: Path) -> Iterator[LocalModel]:
    variants = list(gguf_models_in(folder, Home.FOLDER, folder))
    if has_config(folder) and _is_model(folder, bool(variants)):
        yield _without_others(read_model(folder, Home.FOLDER, folder.name, str(folder), folder))
    yield from variants


def _without_others(whole: LocalModel) -> LocalModel:
    """The same model; only its own files are deleted where the folder holds what no repository of a model does."""
    try:
        entries = sorted(whole.folder.iterdir())
    except OSError:
        return whole
    if all(map(_is_of_repository, entries)):
        return whole
    own = {CONFIG, *choose([path.name for path in entries if path.is_file()])}
    parts = tuple(path for path in entries if path.name in own)
    return replace(whole, parts=parts, bytes=sum(path.lstat().st_size for path in parts if not path.is_symlink()))


def _is_of_repository(path: Path) -> bool:
    if path.is_dir():
        return path.name in _FOLDERS_OF_REPOSITORIES
    return any(fnmatchcase(path.name.casefold(), pattern) for pattern in _OF_REPOSITORIES)


def _is_model(folder: Path, has_variants: bool) -> bool:
    """Whether a folder with a config.json is to be listed as a model of its own, beside variants that it holds."""
    return not has_variants or any(folder.glob("*.safetensors"))
