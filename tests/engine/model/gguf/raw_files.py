"""GGUF files written field by field, so that every field can lie."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

U16, U32, I32, F32, BOOL, STRING, ARRAY, F64 = 2, 4, 5, 6, 7, 8, 9, 12
TENSOR_F32, TENSOR_Q8_0 = 0, 8


def text(value: str | bytes, length: int | None = None) -> bytes:
    """A string; `length` is what is said of it."""
    content = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(content) if length is None else length) + content


def entry(key: str, kind: int, value: bytes) -> bytes:
    """An entry of the metadata."""
    return text(key) + struct.pack("<I", kind) + value


def strings(items: Sequence[str], count: int | None = None) -> bytes:
    """The value of a list of strings."""
    said = len(items) if count is None else count
    return struct.pack("<IQ", STRING, said) + b"".join(text(item) for item in items)


def tensor(
    name: str, shape: Sequence[int], offset: int, kind: int = TENSOR_F32, dimensions: int | None = None
) -> bytes:
    """A line of the table; `shape` in the file's order."""
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


@dataclass
class RawFile:
    """Two small tensors and a few entries; what a test replaces may be anything."""

    magic: bytes = b"GGUF"
    version: int = 3
    entries: list[bytes] = field(
        default_factory=lambda: [
            entry("general.architecture", STRING, text("llama")),
            entry("tokenizer.ggml.tokens", ARRAY, strings(["a", "b", "ü"])),
            entry("numbers", ARRAY, struct.pack("<IQ3i", I32, 3, 1, -2, 3)),
            entry("yes", BOOL, b"\1"),
        ]
    )
    tensors: list[bytes] = field(default_factory=lambda: [tensor("a", (3,), 0), tensor("b", (4, 2), 32)])
    entry_count: int | None = None
    tensor_count: int | None = None
    data: bytes = bytes(range(12)) + bytes(20) + bytes(range(32))

    def write(self, path: Path) -> Path:
        """Write it; the data begin at the next 32 bytes."""
        counts = (
            len(self.tensors) if self.tensor_count is None else self.tensor_count,
            len(self.entries) if self.entry_count is None else self.entry_count,
        )
        head = self.magic + struct.pack("<IQQ", self.version, *counts) + b"".join(self.entries + self.tensors)
        path.write_bytes(head + bytes(-len(head) % 32) + self.data)
        return path
