"""What stands in a GGUF file before its weights, metadata and the table of tensors: read without trusting it.

Both processes read it here: the engine of models that it opens, the window of files whose beginning alone was fetched.
Standard library only. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import io
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from engine.errors import ModelError
from engine.files import open_ordinary
from engine.protocol.sentences import lowered, reason_of, say, shown

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_HEADER_BYTES = 96 << 20  # the largest vocabularies with their merges take some 20 MB
MAX_ENTRIES = 65_536
MAX_TENSORS = 65_536  # in one file
MAX_DIMENSIONS = 4  # as ggml has it
MAX_ALIGNMENT = 1 << 20
MAX_TEXT_BYTES = 16 << 20  # of all single strings together: names, chat templates
MAX_KEY_BYTES = 65_535  # the format's own limit
MAX_NAME_BYTES = 256  # of a tensor; llama.cpp takes 63
MAX_STRINGS = 1 << 22  # in all lists together
_WINDOW_BYTES = 1 << 20

STRING, ARRAY = 8, 9
# Types of metadata values: their letter in `struct`.
NUMBERS: Mapping[int, str] = MappingProxyType(
    {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
)
ALIGNMENT, ARCHITECTURE = "general.alignment", "general.architecture"

FETCH_AGAIN = say("It is damaged or was not downloaded completely: download it again.")

Source = Path | bytes
"""A file, or as much of one as is there."""


class ShortError(ModelError):
    """There is not enough of the file to go on; `needed` bytes from its start would be, for the next step at least."""

    def __init__(self, name: object, needed: int) -> None:
        super().__init__(say("{file} ends before its header does.", file=name), FETCH_AGAIN)
        self.needed = needed


@dataclass(frozen=True, slots=True)
class LazyArray:
    """A metadata array that was checked to lie inside the header of `source`, and is read when it is asked for.

    `kind` is the type of its elements: `STRING`, or one of `NUMBERS`; `name` is what sentences call the file.
    """

    source: Source
    name: str
    kind: int
    count: int
    begin: int
    end: int

    def read(self) -> tuple[str, ...] | tuple[int | float | bool, ...]:
        """All elements.

        Raises `ModelError` if the file has changed, cannot be read, or holds no text, and for more numbers than any
        list has: each takes up to forty times its bytes.
        """
        if self.count > MAX_STRINGS:
            raise self._unreadable()
        try:
            with _opened(self.source) as file:
                file.seek(self.begin)
                content = file.read(self.end - self.begin)
        except OSError as error:
            raise unreadable(self.name, error) from None
        try:
            if self.kind != STRING:
                return struct.unpack(f"<{self.count}{NUMBERS[self.kind]}", content)
            return tuple(self._strings(content))
        except (struct.error, ValueError):
            raise self._unreadable() from None

    def first(self, count: int) -> "LazyArray":
        """The same list up to so many of its elements."""
        end = self.end if self.kind == STRING else self.begin + count * struct.calcsize("<" + NUMBERS[self.kind])
        return replace(self, count=count, end=end)

    def _unreadable(self) -> ModelError:
        return ModelError(say("{file} has a list that cannot be read.", file=self.name), FETCH_AGAIN)

    def _strings(self, content: bytes) -> Iterator[str]:
        at = 0
        for _ in range(self.count):
            (length,) = struct.unpack_from("<Q", content, at)
            if at + 8 + length > len(content):
                raise ValueError("the file has changed")
            yield content[at + 8 : at + 8 + length].decode("utf-8", errors="replace")
            at += 8 + length


@dataclass(frozen=True, slots=True)
class BlockType:
    """How many numbers a block of a tensor holds, and in how many bytes. `number` is ggml's own of the type.

    `plain`: the type's name in safetensors where the numbers lie as such, else empty.
    """

    name: str
    number: int
    elements: int
    nbytes: int
    plain: str = ""


TYPES = (  # those that are read
    BlockType("F32", 0, 1, 4, "F32"),
    BlockType("F16", 1, 1, 2, "F16"),
    BlockType("BF16", 30, 1, 2, "BF16"),
    BlockType("Q4_0", 2, 32, 18),
    BlockType("Q4_1", 3, 32, 20),
    BlockType("Q5_0", 6, 32, 22),
    BlockType("Q5_1", 7, 32, 24),
    BlockType("Q8_0", 8, 32, 34),
    BlockType("Q2_K", 10, 256, 84),
    BlockType("Q3_K", 11, 256, 110),
    BlockType("Q4_K", 12, 256, 144),
    BlockType("Q5_K", 13, 256, 176),
    BlockType("Q6_K", 14, 256, 210),
    BlockType("IQ2_XXS", 16, 256, 66),
    BlockType("IQ2_XS", 17, 256, 74),
    BlockType("IQ3_XXS", 18, 256, 98),
    BlockType("IQ1_S", 19, 256, 50),
    BlockType("IQ4_NL", 20, 32, 18),
    BlockType("IQ3_S", 21, 256, 110),
    BlockType("IQ2_S", 22, 256, 82),
    BlockType("IQ4_XS", 23, 256, 136),
    BlockType("IQ1_M", 29, 256, 56),
    BlockType("TQ1_0", 34, 256, 54),
    BlockType("TQ2_0", 35, 256, 66),
    BlockType("MXFP4", 39, 32, 17),
)
WHOLE_NUMBERS = BlockType("I32", 26, 1, 4, "I32")
"""Of tables of indices, which are no weights that anything is multiplied with."""
_BY_NUMBER = {kind.number: kind for kind in (*TYPES, WHOLE_NUMBERS)}


def block_type(number: int) -> BlockType | None:
    """The type that ggml gives this number; None for one that cannot be read."""
    return _BY_NUMBER.get(number)


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A line of the table: `kind` is ggml's number of the type, `offset` in bytes from the first weight's.

    `shape` has the rows' elements last, as torch has it.
    """

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int

    @property
    def nbytes(self) -> int:
        """What it takes in the file; 0 if its type is not known."""
        kind = block_type(self.kind)
        return math.prod(self.shape) // kind.elements * kind.nbytes if kind else 0


@dataclass(frozen=True, slots=True)
class GgufBeginning:
    """Metadata, scalars and strings as values and lists as `LazyArray`, and the table of tensors.

    Positions are bytes from the start of the file: the table begins at `table` and ends at `end`. What the table says
    of types, shapes and places is not checked.
    """

    metadata: Mapping[str, object]
    tensors: tuple[TensorEntry, ...]
    table: int
    end: int
    alignment: int

    @property
    def architecture(self) -> str:
        """The kind of network as llama.cpp calls it; empty if the file does not say."""
        return architecture_of(self.metadata)

    @property
    def data(self) -> int:
        """Where the weights begin."""
        return self.aligned(self.end)

    def aligned(self, position: int) -> int:
        """The next position from this one on at which weights may begin."""
        return -(-position // self.alignment) * self.alignment


def architecture_of(metadata: Mapping[str, object]) -> str:
    """The kind of network as llama.cpp calls it; empty if the metadata do not say."""
    kind = metadata.get(ARCHITECTURE)
    return kind if isinstance(kind, str) else ""


def is_gguf(content: bytes) -> bool:
    """Whether a file begins as GGUF files of today do."""
    return content[:4] == MAGIC and len(content) >= 8 and int.from_bytes(content[4:8], "little") in VERSIONS


def read_beginning(source: Source, name: object = "") -> GgufBeginning:
    """What a file says before its weights; `name` is what sentences call it, by default its path.

    Raises `ShortError` where there is less of it than it says, and `ModelError` where it is none, lies, cannot be
    read, or claims more than any model has.
    """
    called = str(name or source) if isinstance(source, Path) else str(name)
    try:
        with _opened(source) as file:
            return _read(_HeadReader(file, called), source)
    except OSError as error:
        raise unreadable(called, error) from None


def read_scalars(content: bytes) -> dict[str, object]:
    """The metadata without lists as far as `content`, the first bytes of a file, reaches; empty for no GGUF file."""
    metadata: dict[str, object] = {}
    try:
        head = _HeadReader(io.BytesIO(content), "")
        _, entry_count = _read_counts(head)
        _read_metadata(head, content, entry_count, metadata)
    except ModelError:
        pass  # it is cut off, and says no more
    return {key: value for key, value in metadata.items() if not isinstance(value, LazyArray)}


def find_table(content: bytes, tensors: Sequence[TensorEntry]) -> tuple[int, int] | None:
    """Where in `content`, some bytes of a file, a table of tensors with these names and shapes begins and ends."""
    first = tensors[0].name.encode() if tensors else b""
    begin = content.find(struct.pack("<Q", len(first)) + first)
    if not tensors or begin < 0:
        return None
    head = _HeadReader(io.BytesIO(content), "")
    try:
        head.skip(begin)
        found = [_read_entry(head) for _ in tensors]
    except ModelError:
        return None
    same = all((each.name, each.shape) == (own.name, own.shape) for each, own in zip(found, tensors, strict=True))
    return (begin, head.position) if same else None


def unreadable(file: object, error: OSError) -> ModelError:
    """The refusal of a file that the system does not hand out."""
    return ModelError(
        say("{file} cannot be read: {reason}.", file=file, reason=lowered(reason_of(error))),
        say("Check that the file may be read."),
    )


def twice(file: object, name: str) -> ModelError:
    """The refusal of a file that has something by the same name twice."""
    return ModelError(say("{file} has {name} twice.", file=file, name=shown(name)), FETCH_AGAIN)


class _HeadReader:
    """Goes through the head of a file. Every method raises `ModelError` where the file ends or lies."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """`file` stands at its beginning; `name` is what sentences call it."""
        self.name = name
        self._file = file
        self._window = b""
        self._at = 0  # in the window
        self._begin = 0  # of the window in the file
        self._text_bytes = 0
        self._strings = 0
        self.size = file.seek(0, 2)
        file.seek(0)

    @property
    def position(self) -> int:
        """Bytes from the beginning of the file."""
        return self._begin + self._at

    def take(self, count: int) -> bytes:
        """The next bytes; `count` at most a few megabytes."""
        self.require(count)
        if self._at + count > len(self._window):
            self._refill(count)
        self._at += count
        return self._window[self._at - count : self._at]

    def skip(self, count: int) -> None:
        """Pass over bytes without reading them."""
        self.require(count)
        if self._at + count <= len(self._window):
            self._at += count
            return
        self._begin, self._at, self._window = self.position + count, 0, b""

    def require(self, count: int) -> None:
        """Raise `ModelError` unless a header may be so much longer, and `ShortError` unless so many bytes follow."""
        end = self.position + count
        if end > MAX_HEADER_BYTES:
            raise self.damaged(
                say("{file} has a header of more than {size} MB.", file=self.name, size=MAX_HEADER_BYTES >> 20)
            )
        if end > self.size:
            raise ShortError(self.name, end)

    def number(self, letter: str) -> int | float | bool:
        """The next number; `letter` is its type for `struct`."""
        (value,) = struct.unpack("<" + letter, self.take(struct.calcsize("<" + letter)))
        return value  # type: ignore[no-any-return]

    def size_of(self, letter: str, most: int, what: str) -> int:
        """The next whole number, which may not be more than `most`; `what` is counted, for the sentence."""
        value = int(self.number(letter))
        if value > most:
            raise self.damaged(say("{file} claims {count} {things}.", file=self.name, count=value, things=what))
        return value

    def text(self, most: int = MAX_TEXT_BYTES) -> str:
        """The next string, which may not be longer than `most` bytes."""
        length = self.size_of("Q", most, say("bytes of text"))
        self._text_bytes += length
        if self._text_bytes > MAX_TEXT_BYTES:
            raise self.damaged(
                say("{file} has more than {size} MB of text.", file=self.name, size=MAX_TEXT_BYTES >> 20)
            )
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError:
            raise self.damaged(say("{file} has text that is not UTF-8.", file=self.name)) from None

    def skip_strings(self, count: int) -> None:
        """Pass over so many strings, every one of them inside the file."""
        self._strings += count
        if self._strings > MAX_STRINGS:
            raise self.damaged(say("{file} lists more than {count} strings.", file=self.name, count=MAX_STRINGS))
        self.require(8 * count)
        for _ in range(count):
            self.skip(int.from_bytes(self.take(8), "little"))

    def damaged(self, sentence: str) -> ModelError:
        """The refusal of the file."""
        return ModelError(sentence, FETCH_AGAIN)

    def _refill(self, count: int) -> None:
        self._begin, self._at = self.position, 0
        self._file.seek(self._begin)
        self._window = self._file.read(max(count, _WINDOW_BYTES))
        if len(self._window) < count:  # it became shorter meanwhile
            raise ShortError(self.name, self._begin + count)


def _opened(source: Source) -> BinaryIO:
    return open_ordinary(source) if isinstance(source, Path) else io.BytesIO(source)


def _read(head: _HeadReader, source: Source) -> GgufBeginning:
    tensor_count, entry_count = _read_counts(head)
    metadata: dict[str, object] = {}
    _read_metadata(head, source, entry_count, metadata)
    table = head.position
    tensors = tuple(_read_entry(head) for _ in range(tensor_count))
    alignment = metadata.get(ALIGNMENT, 32)
    if type(alignment) is not int or not 0 < alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
        raise head.damaged(say("{file} asks for an impossible alignment.", file=head.name))
    return GgufBeginning(MappingProxyType(metadata), tensors, table, head.position, alignment)


def _read_counts(head: _HeadReader) -> tuple[int, int]:
    """How many tensors and entries there are, once the file is known to be one that is read."""
    if head.take(min(len(MAGIC), head.size)) != MAGIC:
        raise head.damaged(say("{file} is not a GGUF file.", file=head.name))
    version = int(head.number("I"))
    if version not in VERSIONS:
        raise _other_version(head.name, version)
    return head.size_of("Q", MAX_TENSORS, say("tensors")), head.size_of("Q", MAX_ENTRIES, say("entries"))


def _other_version(name: str, version: int) -> ModelError:
    if version and version & 0xFFFF == 0:
        return ModelError(
            say("{file} was written for machines of another byte order.", file=name),
            say("Choose the little-endian version of the model."),
        )
    return ModelError(
        say("{file} has version {version} of GGUF, which is not read.", file=name, version=version),
        say("Choose a newer file of the model, or update Coppice."),
    )


def _read_metadata(head: _HeadReader, source: Source, count: int, metadata: dict[str, object]) -> None:
    """Put so many entries into `metadata`; those before one that is refused are there."""
    for _ in range(count):
        key = head.text(MAX_KEY_BYTES)
        if key in metadata:
            raise twice(head.name, key)
        metadata[key] = _read_value(head, source, key)


def _read_value(head: _HeadReader, source: Source, key: str) -> object:
    kind = int(head.number("I"))
    if kind in NUMBERS:
        return head.number(NUMBERS[kind])
    if kind == STRING:
        return head.text()
    element, count = (int(head.number("I")), int(head.number("Q"))) if kind == ARRAY else (kind, 0)
    if element != STRING and element not in NUMBERS:  # lists of lists, too: no known entry has them
        raise head.damaged(say("{file} has the entry {entry} of an unknown type.", file=head.name, entry=shown(key)))
    begin = head.position
    if element == STRING:
        head.skip_strings(count)
    else:
        head.skip(count * struct.calcsize("<" + NUMBERS[element]))
    return LazyArray(source, head.name, element, count, begin, head.position)


def _read_entry(head: _HeadReader) -> TensorEntry:
    """The next line of the table."""
    name = head.text(MAX_NAME_BYTES)
    dimensions = head.size_of("I", MAX_DIMENSIONS, say("dimensions of a tensor"))
    shape = tuple(int(head.number("Q")) for _ in range(dimensions))[::-1]
    return TensorEntry(name, shape, int(head.number("I")), int(head.number("Q")))
