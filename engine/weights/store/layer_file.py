"""One decoder layer in one file: safetensors, padded so that its data can be read straight into a buffer."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import ModelError, Panic, no_panic
from engine.files import replaced_atomically
from engine.model.safetensors_header import MAX_TABLE_BYTES
from engine.number_types import safetensors_names, torch_types
from engine.protocol.sentences import reason_of, say
from engine.weights.store.disk import drop_from_cache
from engine.weights.store.layout import PAGE, LayerLayout, Segment, StoredTensor, round_up
from engine.weights.store.manifest import LayerFile

PREFIX_BYTES = 8  # the length of the table, a little-endian uint64
ALIGNMENT = 64  # a cache line, and the widest vector register
PIECE_BYTES = 16 << 20


def write_layer(path: Path, index: int, tensors: Mapping[str, Tensor], codec: str = "plain") -> LayerFile:
    """Write a layer's stored tensors, and return size and digest of the file, which appears whole or not at all.

    Data begin on a page. Tensors lie at multiples of 64 bytes, as far as their sizes allow it without gaps, which
    safetensors forbids: those whose size is no such multiple stand at the end, the widest numbers first. Raises
    `OSError` if it cannot be written.
    """
    stored = _arrange(tensors)
    head = _head(stored, {"format": "pt", "index": str(index), "codec": codec})
    digest = hashlib.sha256()
    with replaced_atomically(path) as file, ThreadPoolExecutor(1) as hasher:
        for piece in _pieces(head, [tensors[entry.name] for entry in stored]):
            hashed = hasher.submit(digest.update, piece)  # both take about as long, and both release the GIL
            file.write(piece)
            hashed.result()
        nbytes = file.tell()
    with path.open("rb") as file:
        drop_from_cache(file.fileno())
    return LayerFile(nbytes, digest.hexdigest())


def read_layout(path: Path) -> LayerLayout:
    """The layout of a file that `write_layer` wrote; raises `ModelError` if it is anything else, or damaged."""
    try:
        with path.open("rb") as file:
            begin = PREFIX_BYTES + int.from_bytes(file.read(PREFIX_BYTES), "little")
            file.read(min(begin, MAX_TABLE_BYTES))  # a disk that fails in the library's mapping would end the process
        with no_panic(), safe_open(path, "pt") as table:  # checks that the tensors fill the file exactly
            metadata = table.metadata() or {}
            entries = [(name, table.get_slice(name)) for name in table.offset_keys()]
            stored, at = [], 0
            for name, entry in entries:
                stored.append(_stored(name, torch_types()[entry.get_dtype()], tuple(entry.get_shape()), at))
                at += stored[-1].nbytes
        segment = Segment(path, begin, at, 0)
        layout = LayerLayout(int(metadata["index"]), (segment,), tuple(stored), round_up(at), metadata["codec"])
    except (OSError, SafetensorError, LookupError, ValueError, Panic) as error:
        raise ModelError(
            say(
                "{file} is no layer that was prepared: {reason}.",
                file=path,
                reason=reason_of(error) if isinstance(error, OSError) else error,
            ),
            say("Prepare the model again."),
        ) from error
    if begin % PAGE:
        raise ModelError(
            say(
                "{file} is no layer that was prepared: {reason}.",
                file=path,
                reason=say("its data do not begin on a page"),
            ),
            say("Prepare it again."),
        )
    return layout


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal, which leaves no page cache. Raises `OSError` if it cannot be read."""
    with path.open("rb", buffering=0) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        drop_from_cache(file.fileno())
    return digest


def _arrange(tensors: Mapping[str, Tensor]) -> list[StoredTensor]:
    def order(item: tuple[str, Tensor]) -> tuple[bool, int, int, str]:
        name, tensor = item
        odd = tensor.nbytes % ALIGNMENT != 0
        # Behind the first odd size nothing is aligned to a cache line, but still to the numbers' own width.
        return odd, -tensor.itemsize if odd else 0, -tensor.nbytes, name

    stored, at = [], 0
    for name, tensor in sorted(tensors.items(), key=order):
        stored.append(_stored(name, tensor.dtype, tuple(tensor.shape), at))
        at += stored[-1].nbytes
    return stored


def _stored(name: str, dtype: torch.dtype, shape: tuple[int, ...], begin: int) -> StoredTensor:
    return StoredTensor(name, dtype, shape, begin, torch.Size(shape).numel() * dtype.itemsize)


def _head(stored: list[StoredTensor], metadata: dict[str, str]) -> bytes:
    """Length and table, filled with blanks up to a page."""
    table: dict[str, object] = {"__metadata__": metadata}
    for entry in stored:
        offsets = [entry.begin, entry.begin + entry.nbytes]
        table[entry.name] = {"dtype": safetensors_names()[entry.dtype], "shape": entry.shape, "data_offsets": offsets}
    text = json.dumps(table, separators=(",", ":")).encode()
    text = text.ljust(round_up(PREFIX_BYTES + len(text)) - PREFIX_BYTES)
    return len(text).to_bytes(PREFIX_BYTES, "little") + text


def _pieces(head: bytes, tensors: list[Tensor]) -> Iterator[memoryview]:
    yield memoryview(head)
    for tensor in tensors:
        flat = memoryview(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]
        for begin in range(0, len(flat), PIECE_BYTES):
            yield flat[begin : begin + PIECE_BYTES]
