"""The header of a GGUF file or of a set of them: metadata and the tables of tensors, read without trusting anything.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from engine.errors import ModelError
from engine.model.gguf.block_types import BlockType, block_type
from engine.model.gguf.reader import (
    ARRAY,
    FETCH_AGAIN,
    MAX_KEY_BYTES,
    MAX_NAME_BYTES,
    NUMBERS,
    STRING,
    HeadReader,
)
from engine.model.json_file import reason, shown
from engine.protocol.sentences import say

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_ENTRIES = 65_536
MAX_TENSORS = 65_536  # in one file
MAX_SHARDS = 1024
MAX_DIMENSIONS = 4
MAX_ALIGNMENT = 1 << 20
ALIGNMENT, ARCHITECTURE = "general.alignment", "general.architecture"
SPLIT_NO, SPLIT_COUNT, SPLIT_TENSORS = "split.no", "split.count", "split.tensors.count"
SPLIT_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class LazyArray:
    """A metadata array that was checked to lie inside the file's header, and is read when it is asked for.

    `kind` is the type of its elements: `STRING`, or one of `NUMBERS`.
    """

    path: Path
    kind: int
    count: int
    begin: int
    end: int

    def read(self) -> tuple[str, ...] | tuple[int | float | bool, ...]:
        """All elements; raises `ModelError` if the file has changed, cannot be read, or holds no text."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.begin)
                content = file.read(self.end - self.begin)
        except OSError as error:
            raise _unreadable(self.path, error) from None
        try:
            if self.kind != STRING:
                return struct.unpack(f"<{self.count}{NUMBERS[self.kind]}", content)
            return tuple(self._strings(content))
        except (struct.error, ValueError):
            raise ModelError(say("{file} has a list that cannot be read.", file=self.path), FETCH_AGAIN) from None

    def _strings(self, content: bytes) -> list[str]:
        found, at = [], 0
        for _ in range(self.count):
            (length,) = struct.unpack_from("<Q", content, at)
            if at + 8 + length > len(content):
                raise ValueError("the file has changed")
            found.append(content[at + 8 : at + 8 + length].decode("utf-8", errors="replace"))
            at += 8 + length
        return found


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """Where a tensor lies, in bytes of `shard`; `shape` with the rows' elements last, as torch has it."""

    name: str
    kind: BlockType
    shape: tuple[int, ...]
    shard: Path
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What the files say before their data: scalars and strings as values, lists as `LazyArray`."""

    shards: tuple[Path, ...]
    metadata: Mapping[str, object]
    tensors: Mapping[str, GgufTensor]

    @property
    def architecture(self) -> str:
        """The kind of network as llama.cpp calls it; empty if the file does not say."""
        kind = self.metadata.get(ARCHITECTURE)
        return kind if isinstance(kind, str) else ""


def read_gguf(shards: Sequence[Path], sizes: Mapping[str, int] = MappingProxyType({})) -> GgufHeader:
    """The header of one file, or of all files of a split model in their order.

    `sizes`: in bytes, by name, of the files of which only the beginning is there. Raises `ModelError` when a file
    cannot be read, or when what it says is impossible: tensors must follow each other in the file without gap or
    overlap, and a set must be complete.
    """
    headers = [_read_file(shard, sizes.get(shard.name)) for shard in shards]
    for number, header in enumerate(headers):
        _require_place(header, number, len(headers))
    tensors: dict[str, GgufTensor] = {}
    for header in headers:
        for name, tensor in header.tensors.items():
            if name in tensors:
                raise _twice(tensor.shard, name)
            tensors[name] = tensor
    first = headers[0].metadata
    if len(headers) > 1 and first.get(SPLIT_TENSORS) != len(tensors):
        raise ModelError(
            say("The files of {file} do not hold the tensors that the first one names.", file=shards[0]), FETCH_AGAIN
        )
    if not tensors:
        raise ModelError(say("{file} holds no tensors.", file=shards[0]), FETCH_AGAIN)
    return GgufHeader(tuple(shards), first, MappingProxyType(tensors))


def read_lists(metadata: Mapping[str, object]) -> dict[str, object]:
    """Metadata with all lists read, which takes as much memory as they do."""
    return {key: value.read() if isinstance(value, LazyArray) else value for key, value in metadata.items()}


def shard_names(name: str) -> tuple[str, ...]:
    """The names of all files of the model that the file called `name` belongs to; raises `ModelError` for no set."""
    match = SPLIT_NAME.fullmatch(name)
    if match is None:
        return (name,)
    number, count = int(match["number"]), int(match["count"])
    if not 1 <= number <= count <= MAX_SHARDS:
        raise ModelError(
            say("{file} is called like a part of a model that cannot be.", file=shown(name)),
            say("Give the files back their names."),
        )
    return tuple(f"{match['stem']}-{part:05}-of-{count:05}.gguf" for part in range(1, count + 1))


def _read_file(path: Path, whole_bytes: int | None) -> GgufHeader:
    try:
        with path.open("rb") as file:
            return _read_head(HeadReader(file, path), path, whole_bytes)
    except OSError as error:
        raise _unreadable(path, error) from None


def _read_head(head: HeadReader, path: Path, whole_bytes: int | None) -> GgufHeader:
    _require_version(head, path)
    tensor_count = head.size_of("Q", MAX_TENSORS, say("tensors"))
    entry_count = head.size_of("Q", MAX_ENTRIES, say("entries"))
    metadata: dict[str, object] = {}
    for _ in range(entry_count):
        key = head.text(MAX_KEY_BYTES)
        if key in metadata:
            raise _twice(path, key)
        metadata[key] = _read_value(head, path, key)
    entries = [_read_entry(head, path) for _ in range(tensor_count)]
    begin = _aligned(head.position, _alignment(metadata, path))
    size = head.size if whole_bytes is None else whole_bytes
    tensors = _placed(entries, begin, _alignment(metadata, path), size, path)
    return GgufHeader((path,), MappingProxyType(metadata), MappingProxyType(tensors))


def _require_version(head: HeadReader, path: Path) -> None:
    if head.size < 24 or head.take(4) != MAGIC:
        raise ModelError(say("{file} is not a GGUF file.", file=path), FETCH_AGAIN)
    version = int(head.number("I"))
    if version in VERSIONS:
        return
    if version and version & 0xFFFF == 0:
        raise ModelError(
            say("{file} was written for machines of another byte order.", file=path),
            say("Choose the little-endian version of the model."),
        )
    raise ModelError(
        say("{file} has version {version} of GGUF, which is not read.", file=path, version=version),
        say("Choose a newer file of the model, or update Coppice."),
    )


def _read_value(head: HeadReader, path: Path, key: str) -> object:
    kind = int(head.number("I"))
    if kind in NUMBERS:
        return head.number(NUMBERS[kind])
    if kind == STRING:
        return head.text()
    if kind != ARRAY:
        raise head.unknown_type(key)
    element = int(head.number("I"))
    count = int(head.number("Q"))
    if element != STRING and element not in NUMBERS:
        raise head.unknown_type(key)  # lists of lists, too: no known entry has them
    begin = head.position
    if element == STRING:
        head.skip_strings(count)
    else:
        head.skip(count * struct.calcsize("<" + NUMBERS[element]))
    return LazyArray(path, element, count, begin, head.position)


def _read_entry(head: HeadReader, path: Path) -> tuple[str, BlockType, tuple[int, ...], int]:
    """Name, type, shape and offset of the next tensor in the table."""
    name = head.text(MAX_NAME_BYTES)
    dimensions = head.size_of("I", MAX_DIMENSIONS, say("dimensions of a tensor"))
    shape = tuple(int(head.number("Q")) for _ in range(dimensions))[::-1]
    number, offset = int(head.number("I")), int(head.number("Q"))
    kind = block_type(number)
    if kind is None:
        raise ModelError(
            say(
                "{file} holds its tensor {tensor} in the format {number}, which cannot be read.",
                file=path, tensor=shown(name), number=number,
            ),
            say("Choose another version of the model."),
        )  # fmt: skip
    elements = math.prod(shape)
    if not shape or not 0 < elements < 2**48 or shape[-1] % kind.elements:
        raise _misplaced(path, name)
    return name, kind, shape, offset


def _alignment(metadata: Mapping[str, object], path: Path) -> int:
    value = metadata.get(ALIGNMENT, 32)
    if type(value) is not int or not 0 < value <= MAX_ALIGNMENT or value & (value - 1):
        raise ModelError(say("{file} asks for an impossible alignment.", file=path), FETCH_AGAIN)
    return value


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def _placed(
    entries: Sequence[tuple[str, BlockType, tuple[int, ...], int]], begin: int, alignment: int, size: int, path: Path
) -> dict[str, GgufTensor]:
    """The tensors by name, once they are known to follow each other in the file, each at the next aligned byte."""
    tensors: dict[str, GgufTensor] = {}
    position = 0
    for name, kind, shape, offset in entries:
        if name in tensors:
            raise _twice(path, name)
        if offset != position:
            raise _misplaced(path, name)
        nbytes = math.prod(shape) // kind.elements * kind.nbytes
        tensors[name] = GgufTensor(name, kind, shape, path, begin + offset, begin + offset + nbytes)
        position = _aligned(offset + nbytes, alignment)
        if tensors[name].end > size:
            raise ModelError(
                say(
                    "{file} is cut off: {there} of {all} bytes are there.", file=path, there=size, all=begin + position
                ),
                say("Download it again."),
            )
    return tensors


def _require_place(header: GgufHeader, number: int, count: int) -> None:
    """Raise `ModelError` unless the file itself says that it is part `number` (from 0) of `count`."""
    said = header.metadata.get(SPLIT_COUNT, 0)
    if count == 1 and said in (0, 1):
        return
    if said != count or header.metadata.get(SPLIT_NO) != number:
        raise ModelError(
            say("{file} is not the part of a model that its name says.", file=header.shards[0]),
            say("Give the files back their names."),
        )


def _misplaced(path: Path, name: str) -> ModelError:
    return ModelError(
        say("{file} gives its tensor {tensor} a place that does not fit its shape.", file=path, tensor=shown(name)),
        FETCH_AGAIN,
    )


def _twice(path: Path, name: str) -> ModelError:
    return ModelError(say("{file} has {name} twice.", file=path, name=shown(name)), FETCH_AGAIN)


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(
        say("{file} cannot be read: {reason}.", file=path, reason=reason(error)),
        say("Check that the file may be read."),
    )
