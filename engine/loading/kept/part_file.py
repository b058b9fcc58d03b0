"""One file of a kept text: safetensors in sections that are read straight into memory, each with its own digest."""

import hashlib
import json
import mmap
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import ModelError, Panic, no_panic
from engine.files import Replacement
from engine.number_types import safetensors_names, torch_types
from engine.weights.store.disk import DiskReader, drop_from_cache
from engine.weights.store.layout import PAGE, LayerLayout, Segment, StoredTensor, round_up

Section = Mapping[str, Tensor]  # tensors by name, wherever they are

VERSION = "1"
PRIVATE = 0o600
PREFIX_BYTES = 8  # the length of the table, a little-endian uint64
PIECE_BYTES = 16 << 20  # written between two looks at who waits
DIGESTS = "digests"
PADDING = "padding"
BETWEEN = "/"  # a section's name and a tensor's
MALFORMED = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What use of a file may raise that is whole, with digests that fit, and yet nothing that is written here."""


class UnusableText(Exception):  # noqa: N818  # a state of a file
    """A file is damaged (`is_damaged`), or it is whole and of something else."""

    def __init__(self, path: Path, is_damaged: bool) -> None:
        super().__init__(str(path))
        self.path = path
        self.is_damaged = is_damaged


def write_part(
    path: Path, sections: Mapping[str, Section], about: Mapping[str, Any], check: Callable[[], None]
) -> "PartFile":
    """Write a file that appears whole or not at all, and leaves no page cache.

    Every section begins on a page; tensors are copied to the host one section at a time. Behind them stand the SHA-256
    of the head and of every section. `about` is plain data for JSON. `check` is called before every `PIECE_BYTES` and
    may raise, as where somebody waits. Raises `OSError` where it cannot be written.
    """
    layouts = _arranged(path, sections)
    head = _head(layouts, {"version": VERSION, "about": json.dumps(about, separators=(",", ":"))})
    digests = [hashlib.sha256(head).digest()]
    replacement = Replacement(path, PRIVATE)
    file = replacement.file
    try:
        file.write(head)
        settled = 0
        for name, layout in layouts.items():
            digest = hashlib.sha256()
            for piece in _pieces(layout, sections[name]):
                check()
                file.write(piece)
                digest.update(piece)
                if file.tell() - settled >= PIECE_BYTES:
                    _settle(file)
                    settled = file.tell()
            digests.append(digest.digest())
        file.write(b"".join(digests))
        _settle(file)
        check()
    except BaseException:
        replacement.discard()
        raise
    replacement.commit()
    return PartFile(path)


class PartFile:
    """A file that `write_part` wrote; its head and its digests are checked when it is opened.

    `about`: as it was given; `digest`: of all of it; `sections`: their names, in order.
    """

    def __init__(self, path: Path) -> None:
        """Raises `UnusableText` for any other file, for a link, and for one of another version; `OSError`."""
        self.path = path
        try:
            with open_part(path) as file:
                head = _read_head(file)
                metadata, self._layouts, begin = _layouts_of(path, len(head))
                file.seek(begin)
                digests = file.read()
            self.about: dict[str, Any] = dict(json.loads(metadata["about"]))
        except (SafetensorError, Panic, *MALFORMED) as error:
            raise UnusableText(path, is_damaged=True) from error
        size = hashlib.sha256().digest_size
        found = [digests[at : at + size] for at in range(0, len(digests), size)]
        if len(found) != 1 + len(self._layouts) or hashlib.sha256(head).digest() != found[0]:
            raise UnusableText(path, is_damaged=True)
        if metadata.get("version") != VERSION:
            raise UnusableText(path, is_damaged=False)
        self.digest = hashlib.sha256(digests).hexdigest()
        self._digests = dict(zip(self._layouts, found[1:], strict=True))

    @property
    def sections(self) -> Sequence[str]:
        """Their names, in the order in which they lie."""
        return tuple(self._layouts)

    @property
    def nbytes(self) -> int:
        """Bytes of all sections."""
        return sum(layout.nbytes for layout in self._layouts.values())

    def reader(self) -> "SectionReader":
        """Opens the file to read sections; raises `UnusableText` where it is gone or became another one."""
        return SectionReader(self, self._layouts, self._digests)


class SectionReader:
    """An open file. Several threads may read at once."""

    def __init__(self, part: PartFile, layouts: Mapping[str, LayerLayout], digests: Mapping[str, bytes]) -> None:
        self._part = part
        self._layouts = layouts
        self._digests = digests
        try:
            held = (layout for layout in layouts.values() if layout.nbytes)
            self._disk = DiskReader(held, is_watched=False)  # what it holds is compared, and its time tells of its use
        except ModelError as error:
            raise UnusableText(part.path, is_damaged=True) from error

    def read(self, name: str) -> dict[str, Tensor]:
        """A section's tensors, which share memory of their own. Raises `UnusableText` where a bit of it differs."""
        layout = self._layouts[name]
        if not layout.nbytes:
            return {}
        buffer = torch.frombuffer(mmap.mmap(-1, layout.nbytes), dtype=torch.uint8)  # direct reads want whole pages
        try:
            self._disk.read(layout, buffer)
        except ModelError as error:
            raise UnusableText(self._part.path, is_damaged=True) from error
        digest = hashlib.sha256(memoryview(buffer.numpy()))  # type: ignore[arg-type]  # numpy arrays are buffers
        if digest.digest() != self._digests[name]:
            raise UnusableText(self._part.path, is_damaged=True)
        return {
            each.name: buffer[each.begin : each.begin + each.nbytes].view(each.dtype).view(each.shape)
            for each in layout.tensors
            if each.name != PADDING
        }

    def close(self) -> None:
        """Close the file."""
        self._disk.close()


def open_part(path: Path) -> BinaryIO:
    """The file to read, where it is one, and no link. Raises `OSError`."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags), "rb")


def _arranged(path: Path, sections: Mapping[str, Section]) -> dict[str, LayerLayout]:
    """Where everything will lie, offsets counted from the end of the head; the widest numbers of a section first."""
    layouts, offset = {}, 0
    for index, (name, tensors) in enumerate(sections.items()):
        stored, at = [], 0
        for own, tensor in sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])):
            stored.append(StoredTensor(own, tensor.dtype, tuple(tensor.shape), at, tensor.nbytes))
            at += tensor.nbytes
        if padding := round_up(at) - at:
            stored.append(StoredTensor(PADDING, torch.uint8, (padding,), at, padding))
        size = round_up(at)
        layouts[name] = LayerLayout(index, (Segment(path, offset, size, 0),), tuple(stored), size)
        offset += size
    return layouts


def _head(layouts: Mapping[str, LayerLayout], metadata: dict[str, str]) -> bytes:
    """Length and table, filled with blanks up to a page. Sections without tensors are named in the metadata."""
    table: dict[str, object] = {"__metadata__": {**metadata, "sections": json.dumps(list(layouts))}}
    end = 0
    for name, layout in layouts.items():
        begin = layout.segments[0].offset
        for each in layout.tensors:
            offsets = [begin + each.begin, begin + each.begin + each.nbytes]
            entry = {"dtype": safetensors_names()[each.dtype], "shape": each.shape, "data_offsets": offsets}
            table[f"{name}{BETWEEN}{each.name}"] = entry
        end = begin + layout.nbytes
    count = (1 + len(layouts)) * hashlib.sha256().digest_size
    table[DIGESTS] = {"dtype": "U8", "shape": [count], "data_offsets": [end, end + count]}
    text = json.dumps(table, separators=(",", ":")).encode()
    text = text.ljust(round_up(PREFIX_BYTES + len(text)) - PREFIX_BYTES)
    return len(text).to_bytes(PREFIX_BYTES, "little") + text


def _pieces(layout: LayerLayout, tensors: Section) -> Iterator[memoryview]:
    for each in layout.tensors:
        if each.name == PADDING:
            yield memoryview(bytes(each.nbytes))
            continue
        own = tensors[each.name].detach().cpu().contiguous()
        flat = memoryview(own.view(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]  # numpy arrays are buffers
        for begin in range(0, len(flat), PIECE_BYTES):
            yield flat[begin : begin + PIECE_BYTES]


def _settle(file: BinaryIO) -> None:
    """Have the disk take what was written: else the end would wait for all of it at once, and so would who comes."""
    file.flush()
    getattr(os, "fdatasync", os.fsync)(file.fileno())
    drop_from_cache(file.fileno())


def _read_head(file: BinaryIO) -> bytes:
    prefix = file.read(PREFIX_BYTES)
    length = int.from_bytes(prefix, "little")
    size = os.fstat(file.fileno()).st_size
    if len(prefix) < PREFIX_BYTES or (PREFIX_BYTES + length) % PAGE or PREFIX_BYTES + length > size:
        raise ValueError("no head of ours")
    return prefix + file.read(length)


def _layouts_of(path: Path, head_bytes: int) -> tuple[dict[str, str], dict[str, LayerLayout], int]:
    """The metadata, where every section lies in the file, and where the digests begin."""
    with no_panic(), safe_open(path, "pt") as table:  # checks that the tensors fill the file exactly
        metadata: dict[str, str] = table.metadata() or {}
        tensors: dict[str, list[StoredTensor]] = {name: [] for name in json.loads(metadata["sections"])}
        for full in table.offset_keys():
            if full == DIGESTS:
                continue
            entry = table.get_slice(full)
            section, _, name = full.rpartition(BETWEEN)
            own, dtype, shape = tensors[section], torch_types()[entry.get_dtype()], tuple(entry.get_shape())
            at = own[-1].begin + own[-1].nbytes if own else 0
            own.append(StoredTensor(name, dtype, shape, at, torch.Size(shape).numel() * dtype.itemsize))
    layouts, offset = {}, head_bytes
    for index, (section, own) in enumerate(tensors.items()):
        nbytes = own[-1].begin + own[-1].nbytes if own else 0
        if nbytes % PAGE:
            raise ValueError("a section ends within a page")
        layouts[section] = LayerLayout(index, (Segment(path, offset, nbytes, 0),), tuple(own), nbytes)
        offset += nbytes
    return metadata, layouts, offset
