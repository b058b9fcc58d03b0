"""The table at the head of a safetensors file, read without trusting anything in it."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, TypeGuard

from engine.errors import ModelError
from engine.model.json_file import reason
from engine.number_types import BITS
from engine.protocol.sentences import say, shown

# The length of the table stands before it as a little-endian uint64.
PREFIX_BYTES = 8
# The format's own limit; a table of a hundred thousand tensors takes about a tenth of it.
MAX_TABLE_BYTES = 100_000_000
# An entry has three brackets in at least 48 bytes; a table far denser in them would blow up when it is parsed.
MIN_BYTES_PER_BRACKET = 8
BRACKET_SLACK_BYTES = 1 << 20
MAX_DIMENSIONS = 16
MAX_SIZE = 2**63 - 1

FETCH_AGAIN = say("It is damaged or was not downloaded completely: download it again.")


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where one tensor lies: `begin` and `end` are byte positions in the file `shard`; `dtype` as safetensors says."""

    dtype: str
    shape: tuple[int, ...]
    shard: Path
    begin: int
    end: int

    @property
    def elements(self) -> int:
        """How many numbers the tensor holds; 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in the file."""
        return self.end - self.begin

    @property
    def place(self) -> tuple[Path, int, int]:
        """Its file, and where in it."""
        return self.shard, self.begin, self.end

    def rows(self, begin: int, end: int) -> "TensorInfo":
        """Where [begin, end) of its first dimension lie."""
        row_bytes = self.nbytes // self.shape[0]
        return replace(
            self,
            shape=(end - begin, *self.shape[1:]),
            begin=self.begin + begin * row_bytes,
            end=self.begin + end * row_bytes,
        )


def read_header(shard: Path, whole_bytes: int | None = None) -> dict[str, TensorInfo]:
    """The tensors of one safetensors file by name, in the order of their data.

    `whole_bytes`: the size of the whole file, where `shard` holds only its beginning, the table at least.
    Raises `ModelError` when the file cannot be read or its table does not describe it: the tensors must fill
    everything behind the table exactly, without gap or overlap.
    """
    try:
        with shard.open("rb") as file:
            there = file.seek(0, 2)
            file.seek(0)
            table, data_begin = _read_table(file, there, shard)
    except OSError as error:
        raise ModelError(
            say("{file} cannot be read: {reason}.", file=shard, reason=reason(error)),
            say("Check that the file may be read."),
        ) from None
    tensors = {name: _tensor(name, entry, shard, data_begin) for name, entry in table.items()}
    return _in_order_of_data(tensors, shard, data_begin, there if whole_bytes is None else whole_bytes)


def _read_table(file: BinaryIO, size: int, shard: Path) -> tuple[Mapping[str, object], int]:
    """The parsed table without its free-form metadata, and the position where the data begins."""
    prefix = file.read(PREFIX_BYTES)
    if prefix == b"version ":
        raise ModelError(
            say("{file} is a Git LFS pointer, not the weights.", file=shard), say("Run 'git lfs pull' in its folder.")
        )
    if len(prefix) < PREFIX_BYTES:
        raise ModelError(say("{file} is only {size} bytes long.", file=shard, size=size), FETCH_AGAIN)
    length = int.from_bytes(prefix, "little")
    if length > MAX_TABLE_BYTES:
        raise ModelError(
            say("{file} is not a safetensors file: its table would take {size} bytes.", file=shard, size=length),
            FETCH_AGAIN,
        )
    if PREFIX_BYTES + length > size:
        raise ModelError(say("{file} ends before its table of tensors does.", file=shard), FETCH_AGAIN)
    table = _parse(file.read(length))
    if table is None:
        raise ModelError(say("{file} has a table of tensors that cannot be read.", file=shard), FETCH_AGAIN)
    table.pop("__metadata__", None)
    return table, PREFIX_BYTES + length


def _parse(text: bytes) -> dict[str, object] | None:
    """The table, or None when it is not a JSON object."""
    brackets = text.count(b"[") + text.count(b"{")
    if brackets * MIN_BYTES_PER_BRACKET > len(text) + BRACKET_SLACK_BYTES:
        return None
    try:
        table = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None
    return table if isinstance(table, dict) else None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object whose names all differ: of two equal names, another reader could take the other one."""
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("two entries have the same name")
    return entries


def _tensor(name: str, entry: object, shard: Path, data_begin: int) -> TensorInfo:
    fields = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(dtype, str) or not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise ModelError(
            say("{file} does not say where its tensor {tensor} lies.", file=shard, tensor=shown(name)), FETCH_AGAIN
        )
    if dtype not in BITS:
        raise ModelError(
            say("{file} holds numbers of an unknown type, {kind}.", file=shard, kind=shown(dtype)),
            say("Choose another model."),
        )
    begin, end = offsets
    fits = (end - begin) * 8 == math.prod(shape) * BITS[dtype]
    if len(shape) > MAX_DIMENSIONS or not fits or math.prod(filter(None, shape)) > MAX_SIZE // BITS[dtype]:
        raise ModelError(
            say(
                "{file} gives its tensor {tensor} a place that does not fit its shape.", file=shard, tensor=shown(name)
            ),
            FETCH_AGAIN,
        )
    return TensorInfo(dtype, tuple(shape), shard, data_begin + begin, data_begin + end)


def _are_sizes(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and 0 <= item <= MAX_SIZE for item in value)


def _in_order_of_data(tensors: dict[str, TensorInfo], shard: Path, data_begin: int, size: int) -> dict[str, TensorInfo]:
    """The tensors sorted by position, once they are known to tile the file from `data_begin` to `size`."""
    ordered = sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end))
    position = data_begin
    for name, tensor in ordered:
        if tensor.begin != position:
            raise ModelError(
                say("{file} has a gap or an overlap before its tensor {tensor}.", file=shard, tensor=shown(name)),
                FETCH_AGAIN,
            )
        position = tensor.end
    if position > size:
        raise ModelError(
            say("{file} is cut off: {there} of {all} bytes are there.", file=shard, there=size, all=position),
            say("Download it again."),
        )
    if position < size:
        raise ModelError(
            say("{file} has {count} bytes too many behind its tensors.", file=shard, count=size - position), FETCH_AGAIN
        )
    return dict(ordered)
