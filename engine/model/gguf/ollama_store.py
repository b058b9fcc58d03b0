"""What Ollama calls a model whose weights are a blob of its store: the blob itself is called by a checksum."""

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
MOST_MANIFESTS, MOST_MANIFEST_BYTES = 5_000, 1 << 20


def name_in_store(blob: Path) -> str:
    """The name in the first manifest that has the blob, such as `gemma3:4b`; empty where none does, or it is none."""
    if not BLOB.fullmatch(blob.name) or blob.parent.name != BLOBS:
        return ""
    folder, digest = blob.parent.parent / MANIFESTS, blob.name.replace("-", ":", 1)
    for manifest in islice(_manifests(folder), MOST_MANIFESTS):
        with suppress(ModelError):
            layers = read_json_object(manifest, MOST_MANIFEST_BYTES).get("layers")
            if isinstance(layers, list) and any(_is_of(layer, digest) for layer in layers):
                return ollama_name(*manifest.relative_to(folder).parts)
    return ""


def _manifests(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (path for path in sorted(folder.glob("*/*/*/*")) if path.is_file() and not path.is_symlink())


def _is_of(layer: object, digest: str) -> bool:
    return isinstance(layer, dict) and layer.get("digest") == digest
