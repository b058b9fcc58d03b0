"""The downloads that are not over, in one small file, so that an interrupted one is offered again."""

import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.downloads.progress import Request
from app.hub.names import is_repo_id, is_revision, is_writable
from app.hub.plan import Plan, RemoteFile
from app.system import json_text as json
from app.system.files import write_private

_log = logging.getLogger(__name__)
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One download: what was asked for and, once the hub has said it, what that consists of."""

    request: Request
    plan: Plan | None = None


class Journal:
    """The file and nothing else; one thread at a time. A file that cannot be read counts as empty, and is replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> tuple[Entry, ...]:
        """What was written last, less whatever in it makes no sense."""
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            entries = stored["downloads"] if stored["version"] == _VERSION else []
            return tuple(_entry(each) for each in entries)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            _log.warning("The list of downloads in %s cannot be read: %s", self._path, error)
            return ()

    def write(self, entries: Iterable[Entry]) -> None:
        """Replace it; where that fails, downloads go on all the same."""
        stored = {"version": _VERSION, "downloads": [asdict(each) for each in entries]}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_private(self._path, json.dumps(stored, indent=1).encode())
        except OSError as error:
            _log.warning("The list of downloads cannot be written to %s: %s", self._path, error)


def _entry(stored: Any) -> Entry:
    """Checked as if it came from outside: names in it become paths. Raises `ValueError`, `KeyError`, `TypeError`."""
    request = Request(**{name: _text(stored["request"][name]) for name in ("repo_id", "revision", "to")})
    _require(is_repo_id(request.repo_id) and is_revision(request.revision))
    described = stored["plan"]
    if described is None:
        return Entry(request)
    files = tuple(
        RemoteFile(_text(each["name"]), int(each["bytes"]), _text(each["etag"])) for each in described["files"]
    )
    commit = _text(described["commit"])
    _require(all(is_writable(each.name) and _is_hex(each.etag) and each.bytes >= 0 for each in files))
    _require(_is_hex(commit))
    return Entry(request, Plan(request.repo_id, commit, files))


def _text(value: Any) -> str:
    _require(isinstance(value, str))
    return str(value)


def _is_hex(value: str) -> bool:
    return bool(value) and set(value) <= set("0123456789abcdef")


def _require(sane: bool) -> None:
    if not sane:
        raise ValueError("it holds something that is not a download")
