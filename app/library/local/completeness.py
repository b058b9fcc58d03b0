"""Whether weight files are as long as their own tables say: an aborted copy or download is told before it is loaded."""

from collections.abc import Iterable
from pathlib import Path

from app.i18n.number_text import size_text
from app.i18n.translation import tr
from app.system.json_text import count, parse_object
from engine.errors import ModelError
from engine.files import open_ordinary
from engine.gguf_header import GgufBeginning, read_beginning

_PREFIX_BYTES = 8  # before the table of a safetensors file: its length
_MOST_TABLE_BYTES = 64 << 20


def damage_of_safetensors(paths: Iterable[Path]) -> str:
    """A sentence about the first of the files that is cut off or has no table; empty if all are whole.

    Only the tables are read. What the engine alone can judge counts as whole. Blocks on the disk.
    """
    return next(filter(None, map(_damage, paths)), "")


def damage_of_gguf(path: Path) -> str:
    """The same for a GGUF file. Its table stands behind the vocabulary, so that this takes a while."""
    try:
        return damage_behind(read_beginning(path), path)
    except (ModelError, OSError):
        return tr("{name} is damaged or cut off.").format(name=path.name)


def damage_behind(beginning: GgufBeginning, path: Path) -> str:
    """The same for a GGUF file whose beginning was read."""
    size = path.stat().st_size
    needed = beginning.data + max((tensor.offset + tensor.nbytes for tensor in beginning.tensors), default=0)
    return _cut_off(path, size, needed) if beginning.tensors and size < needed else ""


def _damage(path: Path) -> str:
    try:
        with open_ordinary(path) as file:
            size = path.stat().st_size
            length = int.from_bytes(file.read(_PREFIX_BYTES), "little")
            if size < _PREFIX_BYTES + length:
                return tr("{name} is damaged or cut off.").format(name=path.name)
            if length > _MOST_TABLE_BYTES:
                return ""
            needed = _PREFIX_BYTES + length + _end_of_data(parse_object(file.read(length)))
    except OSError:
        return tr("{name} cannot be read.").format(name=path.name)
    except ValueError:
        return tr("{name} is damaged or cut off.").format(name=path.name)
    return _cut_off(path, size, needed) if size < needed else ""


def _end_of_data(table: dict[str, object]) -> int:
    """Where the last tensor ends, from the end of the table on."""
    places = (entry.get("data_offsets") for entry in table.values() if isinstance(entry, dict))
    return max((count(place[1]) for place in places if isinstance(place, list) and len(place) == 2), default=0)


def _cut_off(path: Path, size: int, needed: int) -> str:
    return tr("{name} is cut off: only {size} of at least {needed} are there.").format(
        name=path.name, size=size_text(size), needed=size_text(needed)
    )
