"""What Ollama's store says of a blob, which is called by a checksum: the name of its model, and its encoder."""

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from engine.errors import ModelError
from engine.model.json_file import read_json_object
from engine.protocol.variants import ollama_name

BLOBS, MANIFESTS = "blobs", "manifests"
BLOB = re.compile(r"sha256-[0-9a-f]{64}")
PROJECTOR = "application/vnd.ollama.image.projector"
MOST_MANIFESTS, MOST_MANIFEST_BYTES = 5_000, 1 << 20


def name_in_store(blob: Path) -> str:
    """The name in the first manifest that has the blob, such as `gemma3:4b`; empty where none does, or it is none."""
    folder = blob.parent.parent / MANIFESTS
    return next((ollama_name(*manifest.relative_to(folder).parts) for manifest, _ in _manifests_of(blob)), "")


def projector_in_store(blob: Path) -> Path | None:
    """The blob with the encoder of pictures that a manifest has beside this blob; None where none does."""
    for _, layers in _manifests_of(blob):
        for layer in layers:
            digest = layer.get("digest") if isinstance(layer, dict) and layer.get("mediaType") == PROJECTOR else None
            name = digest.replace(":", "-", 1) if isinstance(digest, str) else ""
            if BLOB.fullmatch(name) and (blob.parent / name).is_file():
                return blob.parent / name
    return None


def _manifests_of(blob: Path) -> Iterator[tuple[Path, list[object]]]:
    """The manifests that have a blob, with all of their layers; none where it is no blob of a store."""
    if not BLOB.fullmatch(blob.name) or blob.parent.name != BLOBS:
        return
    digest = blob.name.replace("-", ":", 1)
    for manifest in islice(_manifests(blob.parent.parent / MANIFESTS), MOST_MANIFESTS):
        with suppress(ModelError):
            layers = read_json_object(manifest, MOST_MANIFEST_BYTES).get("layers")
            if isinstance(layers, list) and any(_is_of(layer, digest) for layer in layers):
                yield manifest, layers


def _manifests(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (path for path in sorted(folder.glob("*/*/*/*")) if path.is_file() and not path.is_symlink())


def _is_of(layer: object, digest: str) -> bool:
    return isinstance(layer, dict) and layer.get("digest") == digest
