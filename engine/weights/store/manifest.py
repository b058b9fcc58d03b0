"""The manifest of a prepared model: what it was made from, and which layers are finished."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from engine.errors import ModelError
from engine.files import write_atomically
from engine.protocol.sentences import reason_of, say

NAME = "manifest.json"
KIND, FORMAT = "coppice prepared layers", 1
MAX_BYTES = 16 << 20
HEAD_BYTES = 1 << 20  # the table of tensors, and the first of the weights


class DamagedManifestError(ModelError):
    """What stands in the manifest's place is none, or makes no sense."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the layers were made from, and how.

    `source` is the checkpoint's folder and `fingerprint` the state its files were in; `dtype` is the number type that
    the weights were read as, before `codec` stored them. A model that was moved or renamed is still the same.
    """

    name: str = field(compare=False)
    source: str = field(compare=False)
    fingerprint: str
    codec: str
    dtype: str
    layer_count: int


@dataclass(frozen=True, slots=True)
class LayerFile:
    """What a layer's file must be: its size in bytes, and the SHA-256 of all of it in hexadecimal."""

    nbytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A recipe and the layers that are finished, by index; `complete` is set last of all."""

    recipe: Recipe
    layers: Mapping[int, LayerFile] = field(default_factory=dict)
    complete: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of all finished layers."""
        return sum(layer.nbytes for layer in self.layers.values())

    def with_layer(self, index: int, layer: LayerFile) -> Self:
        """The same with one more layer finished."""
        return replace(self, layers={**self.layers, index: layer})

    def without_layer(self, index: int) -> Self:
        """The same with a layer to be made again."""
        return replace(self, layers={i: layer for i, layer in self.layers.items() if i != index}, complete=False)

    def write(self, folder: Path) -> None:
        """Put it into the folder, in place of an older one. Raises `OSError`."""
        entries = {str(index): asdict(layer) for index, layer in sorted(self.layers.items())}
        content = {"kind": KIND, "format": FORMAT, "recipe": asdict(self.recipe), "layers": entries}
        write_atomically(folder / NAME, json.dumps({**content, "complete": self.complete}, indent=1).encode())


def read_manifest(folder: Path) -> Manifest | None:
    """The folder's manifest; None where there is none.

    Raises `DamagedManifestError`, and `ModelError` for one of another format or one that cannot be read.
    """
    path = folder / NAME
    if path.is_symlink():
        raise ModelError(say("{file} is a link, which is never followed.", file=path), say("Prepare the model again."))
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(MAX_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ModelError(
            say("{file} cannot be read: {reason}.", file=path, reason=reason_of(error)), say("Check the folder.")
        ) from error
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise DamagedManifestError(
            say("{folder} holds no prepared model.", folder=folder), say("Choose another folder.")
        )
    if content.get("format") != FORMAT:
        raise ModelError(
            say("{folder} was prepared by another version of Coppice.", folder=folder),
            say("Delete it, and prepare the model again."),
        )
    try:
        return _parse(content)
    except (LookupError, TypeError, ValueError) as error:
        raise DamagedManifestError(
            say("{file} is damaged.", file=path), say("Delete the folder, and prepare the model again.")
        ) from error


def fingerprint(files: Sequence[Path]) -> str:
    """A hash over every file's name, size, time of last change, and first bytes; raises `ModelError` if one is gone.

    It tells cheaply whether a checkpoint has changed since something was made from it. A copy of the files with new
    times counts as changed: preparing again is cheaper than wrong weights.
    """
    digest = hashlib.sha256()
    for path in sorted(files):
        try:
            state = path.stat()
            with path.open("rb") as file:
                head = hashlib.sha256(file.read(HEAD_BYTES)).hexdigest()
        except OSError as error:
            raise ModelError(
                say("{file} cannot be read: {reason}.", file=path, reason=reason_of(error)),
                say("Check the folder of the model."),
            ) from error
        digest.update(f"{path.name}\0{state.st_size}\0{state.st_mtime_ns}\0{head}\n".encode())
    return digest.hexdigest()


def _parse(content: Mapping[str, Any]) -> Manifest:
    recipe = Recipe(**content["recipe"])
    entries = content["layers"].items()
    layers = {int(index): LayerFile(int(layer["nbytes"]), str(layer["digest"])) for index, layer in entries}
    count = recipe.layer_count
    if type(count) is not int or not all(0 <= index < count for index in layers):
        raise ValueError("the layers are not those of the recipe")
    return Manifest(recipe, layers, content["complete"] is True and len(layers) == count)
