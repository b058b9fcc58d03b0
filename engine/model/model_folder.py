"""A folder of model files: found by what a person calls it, and none of its files may lead out of it."""

import os
import re
from pathlib import Path
from typing import Literal

from engine.errors import ModelError
from engine.model.json_file import reason
from engine.protocol.options import EMBEDDED
from engine.protocol.sentences import say, shown
from engine.protocol.variants import snapshots_in_cache, split_source, variants_in_cache

ModelRole = Literal["target", "draft"]

EMBEDDED_MODELS = Path(__file__).parents[2] / "resources" / "models"
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)

GGUF, MAGIC = ".gguf", b"GGUF"
REPLACED = "\ufffd"  # in place of bytes that are no text
HUB_FOLDER_PREFIX = "models--"


def find_model(source: str, role: ModelRole) -> Path:
    """The folder or the GGUF file behind a source; raises `ModelError` when there is none."""
    if not source:
        raise ModelError(say("No model is given."), say("Give a model folder, a hub id or 'embedded'."))
    if source == EMBEDDED:
        return EMBEDDED_MODELS / f"demo-{role}"
    try:
        path = Path(source).expanduser()
        if path.is_dir() or (path.is_file() and _is_gguf(path)):
            return path
        if path.exists():
            raise ModelError(
                say("{file} is a file, not a model folder.", file=path),
                say("Give a GGUF file, or the folder with the model's config.json."),
            )
    except (OSError, RuntimeError, ValueError):
        raise ModelError(
            say("The model's path cannot be used."), say("Give a model folder, a hub id or 'embedded'.")
        ) from None
    if HUB_ID.fullmatch(source):
        return _cached_snapshot(source)
    repo, variant = split_source(source)
    if variant:
        return _cached_variant(repo, variant)
    if readable(source) != source or REPLACED in source:
        raise ModelError(
            say("There is no model {folder}.", folder=shown(readable(source))),
            say("Its path has bytes that are no UTF-8 text, which not every program hands on: rename what has them."),
        )
    if source.lower().endswith(GGUF):
        raise ModelError(say("There is no file {file}.", file=shown(source)), say("Check the path."))
    raise ModelError(
        say("There is no model folder {folder}.", folder=shown(source)),
        say("Check the path, or give a hub id like 'org/name'."),
    )


def readable(name: str) -> str:
    """The name of a file or a folder as text: systems allow names that no UTF-8 is, and clients are told them."""
    return name.encode(errors="replace").decode()


def _is_gguf(path: Path) -> bool:
    """Whether a file is one of GGUF by its name or, as blobs have none that says it, by how it begins."""
    if path.suffix.lower() == GGUF:
        return True
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _cached_variant(repo: str, variant: str) -> Path:
    """The (first) GGUF file of a variant in the hub's cache, as `org/name:Q4_K_M` names it."""
    for snapshot, found in variants_in_cache(_cached_root(repo)):
        if found.answers_to(variant):
            return snapshot / found.files[0]
    raise ModelError(
        say("The hub cache holds no complete variant {variant} of {name}.", name=repo, variant=variant),
        say("Download it first, or give the path of a GGUF file."),
    )


def _cached_snapshot(hub_id: str) -> Path:
    """The commit of `main`, or the newest one where that has no config.json, as after a download of another branch."""
    try:
        return next(each for each in snapshots_in_cache(_cached_root(hub_id)) if (each / "config.json").is_file())
    except (OSError, StopIteration):
        raise ModelError(
            say(
                "There is no file or folder '{name}', and no downloaded model of that name in the hub cache.",
                name=hub_id,
            ),
            say("Check the path, or download the model first."),
        ) from None


def _cached_root(repo: str) -> Path:
    from huggingface_hub import constants  # noqa: PLC0415 - takes a fifth of a second, and most sources are folders

    return Path(constants.HF_HUB_CACHE) / f"{HUB_FOLDER_PREFIX}{repo.replace('/', '--')}"


class ModelFolder:
    """Hands out the files of one folder.

    A file may be a symbolic link, but only to somewhere inside the folder; in a snapshot of the hub cache, where every
    file is a link to a blob beside it, only to somewhere inside the same `models--org--name` folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hub_folder = _hub_folder(path)
        self._root = self._hub_folder or path.resolve()

    @property
    def name(self) -> str:
        """What people call the model here: `org/name` for a snapshot of the hub cache, else the folder's name."""
        if self._hub_folder:
            return self._hub_folder.name.removeprefix(HUB_FOLDER_PREFIX).replace("--", "/")
        return self._root.name

    def has(self, name: str) -> bool:
        """Whether there is an entry of that name, of whatever kind."""
        return os.path.lexists(self.path / name)

    def names(self) -> list[str]:
        """The names of all entries, sorted; empty when the folder may not be listed."""
        try:
            return sorted(entry.name for entry in self.path.iterdir())
        except OSError:
            return []

    def file(self, name: str) -> Path:
        """The path of a regular file; raises `ModelError` for anything else, and for a link that leads out."""
        path = self.path / name
        try:
            target = path.resolve(strict=True)
            regular = target.is_file()
        except FileNotFoundError:
            raise ModelError(say("{file} is missing.", file=path), say("Download the model again.")) from None
        except (OSError, RuntimeError) as error:  # links in a circle are a RuntimeError before Python 3.13
            why = reason(error) if isinstance(error, OSError) else say("its links go in a circle")
            raise ModelError(
                say("{file} cannot be opened: {reason}.", file=path, reason=why), say("Check the folder.")
            ) from None
        if not target.is_relative_to(self._root):
            raise ModelError(
                say("{file} is a link that leads out of its folder.", file=path), say("Put the file itself there.")
            )
        if not regular:
            raise ModelError(say("{file} is not an ordinary file.", file=path), say("Put the model's own file there."))
        return path


def is_file_name(name: str) -> bool:
    """Whether the name can only mean an entry of the folder itself, on every platform."""
    return name not in ("", ".", "..") and not any(character in name for character in "/\\:\0")


def _hub_folder(path: Path) -> Path | None:
    """The `models--org--name` folder that a snapshot belongs to; None for any other folder."""
    for around in path.resolve().parents[:2]:  # split weights lie in a folder of the snapshot
        if around.name == "snapshots" and around.parent.name.startswith(HUB_FOLDER_PREFIX):
            return around.parent
    return None
