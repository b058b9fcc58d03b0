"""The beginning of a GGUF file, read without trusting it: how far it reaches, what it is of, and its vocabulary."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.system.json_text import count, text
from engine.protocol.sentences import say

MAGIC = b"GGUF"
MAX_BYTES = 96 << 20  # of metadata and table together; the largest vocabularies take some 20 MB
_VERSIONS = (2, 3)
_FIRST_BYTES = 24  # magic, version, and two counts
_MAX_ENTRIES, _MAX_TENSORS, _MAX_DIMENSIONS = 10_000, 100_000, 8
_STRING, _ARRAY = 8, 9
_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_TOKENS, _TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
_UNUSED_TOKEN = 5
_MAX_ALIGNMENT = 1 << 16


class ShortError(ValueError):
    """There is not enough of the file to go on; `needed` bytes from its start would be, for the next step at least."""

    def __init__(self, needed: int) -> None:
        super().__init__(say("it ends too early"))
        self.needed = needed


@dataclass(frozen=True, slots=True)
class Beginning:
    """What stands before the weights. Positions are bytes from the start of the file.

    `scalars`: the metadata without lists; `tokens`: the vocabulary, by id, `None` for an id without a token;
    `tensors`: name and shape of each, as they are written; the `table` of them ends at `end`.
    """

    scalars: Mapping[str, object]
    tokens: tuple[str | None, ...]
    tensors: tuple[bytes, ...]
    table: int
    end: int

    @property
    def architecture(self) -> str:
        """The family, as GGUF calls it, such as `qwen3`."""
        return text(self.scalars.get("general.architecture"), 60)

    @property
    def data(self) -> int:
        """Where the weights begin."""
        return aligned(self.end, self.scalars)


def aligned(end: int, scalars: Mapping[str, object]) -> int:
    """The position at which weights begin behind a table that ends there."""
    asked = count(scalars.get("general.alignment"))
    alignment = asked if 0 < asked <= _MAX_ALIGNMENT else 32
    return -(-end // alignment) * alignment


def is_gguf(content: bytes) -> bool:
    """Whether a file begins as GGUF files of today do."""
    return content[:4] == MAGIC and len(content) >= 8 and int.from_bytes(content[4:8], "little") in _VERSIONS


def read_beginning(content: bytes) -> Beginning:
    """What a file says of itself. Raises `ShortError` where more of it is needed, `ValueError` where it is none."""
    reader = _Reader(content)
    reader.need(_FIRST_BYTES)
    if not is_gguf(content):
        raise ValueError(say("it is no GGUF file of a version that is known"))
    reader.at = 8
    tensor_count, entry_count = reader.number("Q"), reader.number("Q")
    if tensor_count > _MAX_TENSORS or entry_count > _MAX_ENTRIES:
        raise ValueError(say("it claims to have more entries than any model"))
    scalars: dict[str, object] = {}
    lists: dict[str, list[object]] = {}
    for _ in range(entry_count):
        _read_entry(reader, scalars, lists)
    table = reader.at
    tensors = tuple(_read_tensor(reader) for _ in range(tensor_count))
    return Beginning(scalars, _tokens(lists), tensors, table, reader.at)


def read_scalars(content: bytes) -> dict[str, object]:
    """The metadata without lists as far as `content` reaches, and whatever it is cut off behind."""
    scalars: dict[str, object] = {}
    if is_gguf(content) and len(content) >= _FIRST_BYTES:
        reader = _Reader(content)
        reader.at = _FIRST_BYTES
        try:
            for _ in range(min(_MAX_ENTRIES, int.from_bytes(content[16:24], "little"))):
                _read_entry(reader, scalars, {})
        except ValueError:
            return scalars
    return scalars


def find_table(content: bytes, tensors: Sequence[bytes]) -> tuple[int, int] | None:
    """Where in `content`, some bytes of a file, the table of tensors with these names and shapes begins and ends."""
    begin = content.find(tensors[0]) if tensors else -1
    if begin < 0:
        return None
    reader = _Reader(content)
    reader.at = begin
    try:
        same = all(_read_tensor(reader) == each for each in tensors)
    except ValueError:
        return None
    return (begin, reader.at) if same else None


class _Reader:
    """Goes through the bytes; every step is checked against what is there."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def need(self, number: int) -> None:
        if number > MAX_BYTES or self.at + number > MAX_BYTES:
            raise ValueError(say("its metadata are too large"))
        if self.at + number > len(self.content):
            raise ShortError(self.at + number)

    def number(self, kind: str) -> int:
        size = struct.calcsize(f"<{kind}")
        self.need(size)
        (value,) = struct.unpack_from(f"<{kind}", self.content, self.at)
        self.at += size
        return int(value) if kind not in "fd" else 0

    def string(self) -> bytes:
        length = self.number("Q")
        self.need(length)
        self.at += length
        return self.content[self.at - length : self.at]


def _read_entry(reader: _Reader, scalars: dict[str, object], lists: dict[str, list[object]]) -> None:
    name, kind = reader.string().decode("utf-8", "replace"), reader.number("I")
    if kind == _STRING:
        scalars[name] = reader.string()[:1000].decode("utf-8", "replace")
    elif kind == _ARRAY:
        kept = _read_list(reader)
        if name in (_TOKENS, _TYPES):
            lists[name] = list(kept)
        else:
            for _ in kept:
                pass
    elif kind in _SCALARS:
        scalars[name] = reader.number(_SCALARS[kind])
    else:
        raise ValueError(say("it has metadata of an unknown type"))


def _read_list(reader: _Reader) -> Iterator[object]:
    """The items: texts one by one, of numbers all at once; lists of lists are not used by anybody."""
    kind, length = reader.number("I"), reader.number("Q")
    if kind == _STRING:
        reader.need(8 * length)
        return _texts(reader, length)
    if kind not in _SCALARS:
        raise ValueError(say("it has metadata of an unknown type"))
    size = struct.calcsize(f"<{_SCALARS[kind]}")
    reader.need(size * length)
    begin, reader.at = reader.at, reader.at + size * length
    return iter(struct.unpack_from(f"<{length}{_SCALARS[kind]}", reader.content, begin))


def _texts(reader: _Reader, length: int) -> Iterator[object]:
    for _ in range(length):
        yield reader.string()


def _read_tensor(reader: _Reader) -> bytes:
    """Name and shape as they are written; the type and the position among the weights are passed over."""
    begin = reader.at
    reader.string()
    dimensions = reader.number("I")
    if dimensions > _MAX_DIMENSIONS:
        raise ValueError(say("its table of tensors is damaged"))
    reader.need(8 * dimensions + 12)
    reader.at += 8 * dimensions + 12
    return reader.content[begin : reader.at - 12]


def _tokens(lists: Mapping[str, list[object]]) -> tuple[str | None, ...]:
    tokens, kinds = lists.get(_TOKENS, []), lists.get(_TYPES, [])
    used = [kind != _UNUSED_TOKEN for kind in kinds] if len(kinds) == len(tokens) else [True] * len(tokens)
    return tuple(
        token.decode("utf-8", "replace") if used[place] and isinstance(token, bytes) else None
        for place, token in enumerate(tokens)
    )
