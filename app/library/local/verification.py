"""Whether files are still what was downloaded or prepared: their content against the hashes that name them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.downloads.disk import pieces
from app.hub.files import ETAG, RemoteFile
from app.library.local.models import Home, LocalModel, PreparedCopy
from app.system.background import Stop


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
    paths = model.files or [path for path in sorted(model.folder.iterdir()) if path.is_file()]
    digests = {path: _digest(path, model.home) for path in paths}
    yield from _verify(digests, stop)


def _digest(path: Path, home: Home) -> str:
    """What the file's name in its store says that its content is; empty where it says nothing."""
    if home is Home.HUB_CACHE:
        return path.resolve().name
    return path.name.removeprefix("sha256-") if home is Home.OLLAMA else ""


def verify_prepared(copy: PreparedCopy, stop: Stop) -> Iterator[Verifying]:
    """The same for the layers of a prepared copy; one that is missing is damaged."""
    yield from _verify({copy.folder / name: digest for name, digest in copy.digests}, stop)


def _verify(digests: dict[Path, str], stop: Stop) -> Iterator[Verifying]:
    known = {path: digest for path, digest in digests.items() if ETAG.fullmatch(digest)}
    total = sum(path.stat().st_size for path in known if path.is_file())
    done, damaged, unknown = 0, [], len(digests) - len(known)
    for path, digest in known.items():
        if not path.is_file():
            damaged.append(path.name)
            continue
        found = RemoteFile(path.name, path.stat().st_size, digest).checksum()
        with path.open("rb") as file:
            for piece in pieces(file, stop.check):
                found.update(piece)
                done += len(piece)
                yield Verifying(done, total, path.name, tuple(damaged), unknown)
        if found.hexdigest() != digest:
            damaged.append(path.name)
    yield Verifying(done, total, "", tuple(damaged), unknown)
