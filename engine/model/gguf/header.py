"""The tensors of a GGUF file or of a set of them: where each lies, once that is known to be possible."""

import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from engine.errors import ModelError
from engine.gguf_header import (
    FETCH_AGAIN,
    BlockType,
    GgufBeginning,
    LazyArray,
    TensorEntry,
    architecture_of,
    block_type,
    read_beginning,
    twice,
    unreadable,
)
from engine.protocol.sentences import say, shown

MAX_SHARDS = 1024
MOST_NUMBERS = 4096  # of a vector that is read with the header
SPLIT_NO, SPLIT_COUNT, SPLIT_TENSORS = "split.no", "split.count", "split.tensors.count"
SPLIT_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.ASCII | re.DOTALL)


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
        return architecture_of(self.metadata)

    def has(self, ending: str) -> bool:
        """Whether there is a tensor whose name ends so, in whatever layer."""
        return any(name.endswith(ending) for name in self.tensors)


def small_numbers(tensor: GgufTensor) -> list[float] | None:
    """The numbers of a short vector in 32 bits; None for any other tensor.

    Empty where facts have only the beginning of its file, enough for a plan: `read_gguf` has refused a model that is
    cut off. Raises `ModelError` if the file cannot be read.
    """
    count = (tensor.end - tensor.begin) // 4
    if tensor.kind.name != "F32" or len(tensor.shape) != 1 or not 0 < count <= MOST_NUMBERS:
        return None
    try:
        if tensor.shard.stat().st_size < tensor.end:
            return []
        with tensor.shard.open("rb") as file:
            file.seek(tensor.begin)
            return list(struct.unpack(f"<{count}f", file.read(4 * count)))
    except struct.error:
        return None
    except OSError as error:
        raise unreadable(tensor.shard, error) from None


def read_gguf(shards: Sequence[Path], sizes: Mapping[str, int] = MappingProxyType({})) -> GgufHeader:
    """The header of one file, or of all files of a split model in their order.

    `sizes`: in bytes, by name, of the files of which only the beginning is there. Raises `ModelError` when a file
    cannot be read, or when what it says is impossible: tensors must follow each other in the file without gap or
    overlap, and a set must be complete.
    """
    metadata: list[Mapping[str, object]] = []
    tensors: dict[str, GgufTensor] = {}
    for number, shard in enumerate(shards):
        beginning = read_beginning(shard)
        metadata.append(beginning.metadata)
        _require_place(beginning, shard, number, len(shards))
        for tensor in _placed(beginning, _size_of(shard, sizes), shard):
            if tensor.name in tensors:
                raise twice(shard, tensor.name)
            tensors[tensor.name] = tensor
    if len(shards) > 1 and metadata[0].get(SPLIT_TENSORS) != len(tensors):
        raise ModelError(
            say("The files of {file} do not hold the tensors that the first one names.", file=shards[0]), FETCH_AGAIN
        )
    if not tensors:
        raise ModelError(say("{file} holds no tensors.", file=shards[0]), FETCH_AGAIN)
    return GgufHeader(tuple(shards), metadata[0], MappingProxyType(tensors))


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


def _size_of(shard: Path, sizes: Mapping[str, int]) -> int:
    try:
        return sizes[shard.name] if shard.name in sizes else shard.stat().st_size
    except OSError as error:
        raise unreadable(shard, error) from None


def _placed(beginning: GgufBeginning, size: int, path: Path) -> Iterator[GgufTensor]:
    """The tensors, each known to lie at the next aligned byte behind the one before, and inside `size` bytes."""
    position = 0
    for entry in beginning.tensors:
        kind = _kind_of(entry, path)
        elements = math.prod(entry.shape)
        fits = entry.shape and 0 < elements < 2**48 and entry.shape[-1] % kind.elements == 0
        if not fits or entry.offset != position:
            raise ModelError(
                say(
                    "{file} gives its tensor {tensor} a place that does not fit its shape.",
                    file=path, tensor=shown(entry.name),
                ),
                FETCH_AGAIN,
            )  # fmt: skip
        begin = beginning.data + position
        end = begin + elements // kind.elements * kind.nbytes
        position = beginning.aligned(end - beginning.data)
        if end > size:
            everything = beginning.data + position
            raise ModelError(
                say("{file} is cut off: {there} of {all} bytes are there.", file=path, there=size, all=everything),
                say("Download it again."),
            )
        yield GgufTensor(entry.name, kind, entry.shape, path, begin, end)


def _kind_of(entry: TensorEntry, path: Path) -> BlockType:
    kind = block_type(entry.kind)
    if kind is None:
        raise ModelError(
            say(
                "{file} holds its tensor {tensor} in the format {number}, which cannot be read.",
                file=path, tensor=shown(entry.name), number=entry.kind,
            ),
            say("Choose another version of the model."),
        )  # fmt: skip
    return kind


def _require_place(beginning: GgufBeginning, path: Path, number: int, count: int) -> None:
    """Raise `ModelError` unless the file itself says that it is part `number` (from 0) of `count`."""
    said = beginning.metadata.get(SPLIT_COUNT, 0)
    if count == 1 and said in (0, 1):
        return
    if said != count or beginning.metadata.get(SPLIT_NO) != number:
        raise ModelError(
            say("{file} is not the part of a model that its name says.", file=path),
            say("Give the files back their names."),
        )
