"""Whether files are still what was downloaded or prepared: their content against the hashes that name them."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.library.local.models import Home, LocalModel, PreparedCopy
from app.system.background import Stop

_PIECE_BYTES = 4 << 20
_SHA256, _GIT = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Verifying:
    """How far it has come: bytes read of all, the file at hand, and the files found damaged so far.

    `unknown` files have no hash to be compared with, as those of a folder that somebody made.
    """

    done_bytes: int
    total_bytes: int
    file: str = ""
    damaged: tuple[str, ...] = ()
    unknown: int = 0


def verify_model(model: LocalModel, stop: Stop) -> Iterator[Verifying]:
    """Read every file of a model; yields as it goes, the result last. Blocks; raises `Cancelled`, `OSError`."""
    paths = [path for path in sorted(model.folder.iterdir()) if path.is_file()]
    digests = {path: path.resolve().name if model.home is Home.HUB_CACHE else "" for path in paths}
    yield from _verify(digests, stop)


def verify_prepared(copy: PreparedCopy, stop: Stop) -> Iterator[Verifying]:
    """The same for the layers of a prepared copy; one that is missing is damaged."""
    yield from _verify({copy.folder / name: digest for name, digest in copy.digests}, stop)


def _verify(digests: dict[Path, str], stop: Stop) -> Iterator[Verifying]:
    known = {path: digest for path, digest in digests.items() if _SHA256.fullmatch(digest) or _GIT.fullmatch(digest)}
    total = sum(path.stat().st_size for path in known if path.is_file())
    done, damaged, unknown = 0, [], len(digests) - len(known)
    for path, digest in known.items():
        if not path.is_file():
            damaged.append(path.name)
            continue
        found = _begin(digest, path.stat().st_size)
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                stop.check()
                found.update(piece)
                done += len(piece)
                yield Verifying(done, total, path.name, tuple(damaged), unknown)
        if found.hexdigest() != digest:
            damaged.append(path.name)
    yield Verifying(done, total, "", tuple(damaged), unknown)


def _begin(digest: str, size: int) -> "hashlib._Hash":
    """Large files are named by their SHA-256, small ones as git names them."""
    if _SHA256.fullmatch(digest):
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
