"""The one store of all that is learned: versioned JSON files in the cache folder, all under the same rule.

A file is replaced whole or not at all. One that is damaged, foreign or of an older version counts as empty, and the
next write replaces it; one of a newer version counts as empty too, and stays as it is.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal, TypeVar

from engine.files import write_atomically
from engine.protocol.options import LoadOptions
from engine.protocol.sentences import reason_of

LARGEST_BYTES = 1 << 20  # of a file that is read; the largest of ours has some 100,000
_OWN_FOLDER, _OWN_FILE = 0o700, 0o600  # what was learnt from a person's answers is theirs alone to read
MOST_KEPT = 64  # entries of a section; the oldest go first

Found = TypeVar("Found")
Why = Literal["not JSON", "foreign", "older", "newer"]


class UnusableError(Exception):
    """A file that counts as empty, and why."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why = why


def cache_root(options: LoadOptions) -> Path:
    """Where everything is kept that could be made again."""
    if options.cache_dir:
        return Path(options.cache_dir)
    import platformdirs  # noqa: PLC0415  # a machine that is lent may lack it, and names a folder

    return Path(platformdirs.user_cache_dir("coppice"))


def unwritable(options: LoadOptions) -> str:
    """Why nothing can be kept in the cache folder; empty where it can."""
    folder = cache_root(options)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return reason_of(error)


def compiled_folder(options: LoadOptions) -> Path:
    """Where compiled loops are kept."""
    return cache_root(options) / "compiled"


def cache_folder(options: LoadOptions) -> Path:
    """Where prepared models are kept."""
    return cache_root(options) / "prepared"


@dataclass(frozen=True, slots=True)
class CacheFile:
    """One JSON object in the cache folder, and the version in which it is read and written."""

    path: Path
    version: int

    def read(self) -> dict[str, Any] | None:
        """The object; None where there is no file.

        Raises `UnusableError` for a file that counts as empty, and `OSError` for one that cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                content = file.read(LARGEST_BYTES)
        except FileNotFoundError:
            return None
        try:
            document = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise UnusableError("not JSON") from error
        version = document.get("version") if isinstance(document, dict) else None
        if type(version) is not int:
            raise UnusableError("foreign")
        if version != self.version:
            raise UnusableError("newer" if version > self.version else "older")
        return dict(document)

    def write(self, document: Mapping[str, Any]) -> None:
        """Replace the file, unless it is of a newer version. Raises `OSError` if the folder cannot be written."""
        if self._is_newer():
            return
        self.path.parent.mkdir(mode=_OWN_FOLDER, parents=True, exist_ok=True)
        content = json.dumps({"version": self.version, **document}, indent=1).encode()
        write_atomically(self.path, content, _OWN_FILE)

    def entry(self, section: str, key: str, parse: Callable[[Mapping[str, Any]], Found]) -> Found | None:
        """What `parse` makes of an entry of a section; None if it is missing or cannot be used.

        `parse` raises `KeyError`, `TypeError` or `ValueError` for what it cannot use: anybody may have written it.
        """
        value = self._sections().get(section, {}).get(key)
        try:
            return parse(value) if isinstance(value, dict) else None
        except (KeyError, TypeError, ValueError):
            return None

    def put(self, section: str, key: str, value: Mapping[str, Any] | None) -> None:
        """Make this the newest entry of a section, or remove the entry (None); the other sections stay.

        A folder that cannot be written means learning it again next time.
        """
        sections = self._sections()
        entries = {name: kept for name, kept in sections.get(section, {}).items() if name != key}
        if value is not None:
            entries[key] = value
        with suppress(OSError):
            self.write({**sections, section: dict(list(entries.items())[-MOST_KEPT:])})

    def _sections(self) -> dict[str, dict[str, Any]]:
        """The parts of the file that hold entries by key; none if the file cannot be used."""
        try:
            document = self.read() or {}
        except (OSError, UnusableError):
            return {}
        return {name: entries for name, entries in document.items() if isinstance(entries, dict)}

    def _is_newer(self) -> bool:
        try:
            self.read()
        except UnusableError as error:
            return error.why == "newer"
        except OSError:
            pass
        return False
