"""Makes a prepared model layer by layer; a run that was stopped is continued by the next."""

import errno
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from engine.errors import Cancellation, CoppiceError, ModelError
from engine.files import SUFFIX, remove_leftovers
from engine.protocol.sentences import Amount, reason_of, say
from engine.weights.store.layer_file import write_layer
from engine.weights.store.manifest import NAME, DamagedManifestError, Manifest, Recipe, read_manifest
from engine.weights.store.prepared_model import is_called_by, is_intact, is_there, is_usable, layer_path

RESERVE_BYTES = 256 << 20  # left free on the disk: a full disk harms more than us
TABLE_BYTES = 64 << 10  # a layer's table of tensors, padding included; only far larger mixtures need more
NO_SPACE = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


@dataclass(frozen=True, slots=True)
class PrepareProgress:
    """`layers` of `total` are done, `nbytes` of `total_bytes`. `seconds_left` is None until it can be estimated.

    `kept`: the last layer was there already, and intact.
    """

    layers: int
    total: int
    nbytes: int
    total_bytes: int
    seconds_left: float | None
    kept: bool


@dataclass(frozen=True, slots=True)
class Work:
    """What to prepare. `outlines`: on meta, each layer's stored tensors; `make` gives them.

    `source_fingerprint` gives the state of the source's files now.
    """

    recipe: Recipe
    outlines: Sequence[Mapping[str, Tensor]]
    make: Callable[[int], Mapping[str, Tensor]]
    source_fingerprint: Callable[[], str]

    @property
    def layer_bytes(self) -> list[int]:
        """What each layer will take when stored."""
        return [sum(tensor.nbytes for tensor in outline.values()) for outline in self.outlines]

    def is_kept(self, folder: Path, manifest: Manifest, index: int) -> bool:
        """Whether a layer that the manifest names need not be made again.

        A complete model was intact when it was made, and is opened often; after a run that was stopped, it is all read.
        """
        path, layer = layer_path(folder, index), manifest.layers[index]
        if manifest.complete:
            return is_usable(path, layer, index, self.recipe.codec, self.outlines[index])
        return is_intact(path, layer)


def prepare(folder: Path, work: Work, cancellation: Cancellation) -> Iterator[PrepareProgress]:
    """Write all layers into `folder`, except those that an earlier run has finished; yields after each layer.

    Layers of a run that was stopped are kept if they are whole, those of a complete one if their sizes and tables are
    right, and those that another process finishes meanwhile. Raises `Cancelled` between two layers, what is done stays;
    `ModelError` for a folder that holds something else or a source that changed; `CoppiceError` if the disk is too
    small or fails.
    """
    with _disk_errors(folder):
        manifest = found = _claim(folder, work.recipe)
        progress = _Progress(work.layer_bytes)
        for index in sorted(found.layers):
            cancellation.check()
            if work.is_kept(folder, found, index):
                yield progress.kept(index)
            else:
                manifest = manifest.without_layer(index)
        if manifest.complete:
            return
        manifest.write(folder)
        missing = [index for index in range(work.recipe.layer_count) if index not in manifest.layers]
        _require_space(folder, work, missing)
        for index in missing:
            cancellation.check()
            manifest = _with_others(folder, manifest)
            if index in manifest.layers:
                yield progress.kept(index)
                continue
            layer = write_layer(layer_path(folder, index), index, work.make(index), work.recipe.codec)
            if work.source_fingerprint() != work.recipe.fingerprint:
                raise _changed(work.recipe)  # before the layer counts as one of the source that the recipe names
            manifest = _with_others(folder, manifest).with_layer(index, layer)
            manifest.write(folder)
            yield progress.made(index)
        replace(manifest, complete=True).write(folder)


class _Progress:
    """How much is done, and how long the rest takes, by the layers that this run made."""

    def __init__(self, layer_bytes: Sequence[int]) -> None:
        self._layer_bytes = layer_bytes
        self._layers = self._done = self._made = 0
        self._begin = time.perf_counter()

    def kept(self, index: int) -> PrepareProgress:
        """A layer was found whole."""
        self._begin = time.perf_counter()
        return self._count(index, kept=True)

    def made(self, index: int) -> PrepareProgress:
        """A layer was written."""
        self._made += self._layer_bytes[index]
        return self._count(index, kept=False)

    def _count(self, index: int, *, kept: bool) -> PrepareProgress:
        self._layers += 1
        self._done += self._layer_bytes[index]
        total = sum(self._layer_bytes)
        seconds = (time.perf_counter() - self._begin) * (total - self._done) / self._made if self._made else None
        return PrepareProgress(self._layers, len(self._layer_bytes), self._done, total, seconds, kept)


def _with_others(folder: Path, manifest: Manifest) -> Manifest:
    """The same with the layers that another process, which prepares the same, has finished meanwhile."""
    found = read_manifest(folder)
    if found is None or found.recipe != manifest.recipe:
        return manifest
    there = {index: layer for index, layer in found.layers.items() if is_there(layer_path(folder, index), layer)}
    return replace(manifest, layers={**manifest.layers, **there}, complete=found.complete and there == found.layers)


def _claim(folder: Path, recipe: Recipe) -> Manifest:
    """The folder's manifest, new or of the same layers; raises `ModelError` if the folder holds anything else.

    What is in a folder that is called by the recipe was prepared, and is made again where no manifest tells of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    is_ours = is_called_by(folder, recipe.fingerprint)
    try:
        manifest = read_manifest(folder)
    except DamagedManifestError:
        if not is_ours:
            raise
        manifest = None
    if manifest is None:
        interrupted = f"{NAME}.*{SUFFIX}"  # our own first write
        if not is_ours and any(not path.match(interrupted) for path in folder.iterdir()):
            raise ModelError(
                say("{folder} holds other files.", folder=folder), say("Choose a new folder, or an empty one.")
            )
        for path in folder.glob("layer-*.safetensors"):
            path.unlink()
        manifest = Manifest(recipe)
        manifest.write(folder)  # before any layer: only the manifest marks the folder as ours
    remove_leftovers(folder)
    if manifest.recipe == recipe:
        return manifest
    if replace(manifest.recipe, fingerprint=recipe.fingerprint) == recipe:
        raise _changed(recipe)
    raise ModelError(
        say("{folder} holds '{name}', prepared in another way.", folder=folder, name=manifest.recipe.name),
        say("Choose another folder."),
    )


def _require_space(folder: Path, work: Work, missing: Sequence[int]) -> None:
    needed = sum(work.layer_bytes[index] + TABLE_BYTES for index in missing) + RESERVE_BYTES
    free = shutil.disk_usage(folder).free
    if missing and needed > free:
        raise CoppiceError(
            say(
                "Preparing '{name}' needs {size}, and {there} are free in {folder}.",
                name=work.recipe.name,
                size=_gib(needed),
                there=_gib(free),
                folder=folder,
            ),
            say("Free some space, or choose a folder on another disk."),
        )


def _changed(recipe: Recipe) -> ModelError:
    return ModelError(
        say("The files of '{name}' have changed since its preparation began.", name=recipe.name),
        say("Delete the prepared model, and prepare it again."),
    )


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the disk into sentences; nothing half written is left by then."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise CoppiceError(
                say("The disk that holds {folder} is full.", folder=folder),
                say("Free some space and prepare again: the layers that are finished are kept."),
            ) from error
        raise CoppiceError(
            say("{place} cannot be written: {reason}.", place=folder, reason=reason_of(error)),
            say("Check the disk, or choose another folder for prepared models."),
        ) from error


def _gib(nbytes: int) -> Amount:
    return Amount(f"{nbytes / 2**30:.1f} GiB")
