"""Prepared models in their folders: found, opened, checked and deleted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from engine.errors import Cancellation, ModelError
from engine.files import SUFFIX
from engine.protocol.sentences import say
from engine.weights.store.layer_file import digest_of, read_layout
from engine.weights.store.layout import LayerLayout
from engine.weights.store.manifest import NAME, LayerFile, Manifest, Recipe, read_manifest

AGAIN = say("Prepare the model again: what is whole is kept.")


@dataclass(frozen=True, slots=True)
class PreparedModel:
    """A folder of layers; not `complete` if its preparation was stopped."""

    folder: Path
    manifest: Manifest

    @property
    def recipe(self) -> Recipe:
        """What it was made from, and how."""
        return self.manifest.recipe

    @property
    def complete(self) -> bool:
        """Whether every layer is there."""
        return self.manifest.complete

    @property
    def nbytes(self) -> int:
        """Bytes of the finished layers' files."""
        return self.manifest.nbytes

    def layout(self, index: int) -> LayerLayout:
        """Where a layer lies, and what it holds; raises `ModelError` if its file is not what was written."""
        path = layer_path(self.folder, index)
        require_file(path, self.manifest.layers[index])
        layout = read_layout(path)
        if (layout.index, layout.codec) != (index, self.recipe.codec):
            raise ModelError(say("{file} holds another layer than its name says.", file=path), AGAIN)
        return layout

    def layouts(self) -> tuple[LayerLayout, ...]:
        """All layers, first to last; see `layout`."""
        return tuple(self.layout(index) for index in range(self.recipe.layer_count))


def layer_path(folder: Path, index: int) -> Path:
    """The file of one layer."""
    return folder / f"layer-{index:05}.safetensors"


def folder_name(name: str, weights: str, fingerprint: str) -> str:
    """What a prepared model's folder is called; `weights` is what a person calls its number type."""
    safe = "".join(character if character.isalnum() or character in "._-" else "-" for character in name)
    return f"{safe.lstrip('.')[:80]}-{weights}-{fingerprint[:12]}"


def is_called_by(folder: Path, fingerprint: str) -> bool:
    """Whether `folder_name` gave the folder its name, for this state of a source: whatever is in it was prepared."""
    return folder.name.endswith(f"-{fingerprint[:12]}")


def open_prepared(folder: Path, source_fingerprint: str | None = None) -> PreparedModel:
    """Open a complete prepared model; the sizes of its files are compared, their content is not (see `verify`).

    Raises `ModelError` if it is incomplete or damaged, or if the source is not in the state that the fingerprint tells.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise ModelError(say("{folder} holds no prepared model.", folder=folder), say("Prepare the model first."))
    if not manifest.complete:
        done, total = len(manifest.layers), manifest.recipe.layer_count
        raise ModelError(
            say("{folder} is only partly prepared: {done} of {count} layers.", folder=folder, done=done, count=total),
            AGAIN,
        )
    if source_fingerprint not in (None, manifest.recipe.fingerprint):
        raise ModelError(
            say("The files of '{name}' have changed since it was prepared.", name=manifest.recipe.name),
            say("Delete the prepared model, and prepare it again."),
        )
    for index, layer in manifest.layers.items():
        require_file(layer_path(folder, index), layer)
    return PreparedModel(folder, manifest)


def list_prepared(cache: Path) -> tuple[PreparedModel, ...]:
    """The prepared models in the folder `cache`, incomplete ones too, by name; other folders are left out."""
    found = []
    for folder in sorted(cache.iterdir()) if cache.is_dir() else []:
        try:
            manifest = None if folder.is_symlink() else read_manifest(folder)
        except ModelError:
            continue
        if manifest:
            found.append(PreparedModel(folder, manifest))
    return tuple(found)


def delete_prepared(folder: Path) -> None:
    """Delete a prepared model and nothing else: other files in its folder stay, and the folder with them.

    Raises `ModelError` for a folder that holds no prepared model, and `OSError` if the files cannot be deleted.
    """
    if folder.is_symlink() or read_manifest(folder) is None:
        raise ModelError(say("{folder} holds no prepared model.", folder=folder), say("Nothing was deleted."))
    for pattern in ("layer-*.safetensors", f"layer-*{SUFFIX}", f"{NAME}.*{SUFFIX}"):
        for path in folder.glob(pattern):
            path.unlink()
    (folder / NAME).unlink()  # last: until then the folder is known as ours, and can be deleted again
    if not any(folder.iterdir()):
        folder.rmdir()


def verify(prepared: PreparedModel, cancellation: Cancellation) -> Iterator[int]:
    """Read all layers and compare digests; yields each layer that is intact, raises `ModelError` at one that is not.

    That one is removed from the manifest, so that preparing makes it again. Raises `Cancelled` between two layers.
    """
    for index, layer in sorted(prepared.manifest.layers.items()):
        cancellation.check()
        path = layer_path(prepared.folder, index)
        if not is_intact(path, layer):
            prepared.manifest.without_layer(index).write(prepared.folder)
            raise ModelError(say("{file} is not as it was written.", file=path), AGAIN)
        yield index


def require_file(path: Path, layer: LayerFile) -> None:
    """Raise `ModelError` if there is no ordinary file of the layer's size."""
    if path.is_symlink():
        raise ModelError(say("{file} is a link, which is never followed.", file=path), AGAIN)
    if not path.is_file():
        raise ModelError(say("{file} is missing.", file=path), AGAIN)
    if (size := path.stat().st_size) != layer.nbytes:
        raise ModelError(
            say("{file} has {size} bytes and not {wanted}.", file=path, size=size, wanted=layer.nbytes), AGAIN
        )


def is_there(path: Path, layer: LayerFile) -> bool:
    """Whether the file is there, in the right size."""
    try:
        require_file(path, layer)
    except (ModelError, OSError):
        return False
    return True


def is_usable(path: Path, layer: LayerFile, index: int, codec: str, outline: Mapping[str, Tensor]) -> bool:
    """Whether the file is there, in the right size, and says that it holds this layer, in tensors like the outline."""
    if not is_there(path, layer):
        return False
    try:
        layout = read_layout(path)
    except ModelError:
        return False
    held = {each.name: (each.dtype, each.shape) for each in layout.tensors}
    wanted = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in outline.items()}
    return (layout.index, layout.codec, held) == (index, codec, wanted)


def is_intact(path: Path, layer: LayerFile) -> bool:
    """Whether the file is there and holds what was written, byte for byte."""
    try:
        return is_there(path, layer) and digest_of(path) == layer.digest
    except OSError:
        return False
