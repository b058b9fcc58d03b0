"""A lock: the exact wheels of one build of torch for one system and one Python, with checksums and sizes."""

import hashlib
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from app.hub.files import RemoteFile
from app.system import json_text as json
from engine.errors import CoppiceError
from engine.protocol.sentences import say

FORMAT = 1
_WHEEL = re.compile(r"[A-Za-z0-9][\w.+!-]*\.whl", re.ASCII)
_SHA256 = re.compile(r"([0-9a-f]{64})?")


class LockError(CoppiceError):
    """The lock is missing or cannot be read: this installation of Coppice is damaged, or made for another system."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """One file. `sha256` is empty where the index has the last word; `bytes` is then about right, otherwise exact.

    `index` is the address that it comes from; empty for the default one.
    """

    file: str
    sha256: str
    bytes: int
    index: str = ""

    @property
    def project(self) -> str:
        """The package's name as an index spells it, such as `huggingface-hub`."""
        return re.sub(r"[-_.]+", "-", self.file.split("-", 1)[0]).lower()

    @property
    def version(self) -> str:
        """Such as `2.13.0+cpu`."""
        return self.file.split("-")[1]

    def remote(self) -> RemoteFile:
        """The same as downloads know it; only where the checksum is known."""
        assert self.sha256
        return RemoteFile(self.file, self.bytes, self.sha256)


@dataclass(frozen=True, slots=True)
class Lock:
    """`python` is the version that the wheels are for, such as `3.11`; `installed_bytes` what they take unpacked."""

    build: str
    python: str
    installed_bytes: int
    wheels: tuple[Wheel, ...] = field(default=())

    @property
    def bytes(self) -> int:
        """What is to be downloaded, all in all."""
        return sum(wheel.bytes for wheel in self.wheels)

    @property
    def fingerprint(self) -> str:
        """Tells one lock from any other; a runtime is known by it."""
        content = json.dumps([self.build, self.python, *(each.file + each.sha256 for each in self.wheels)])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def text(self) -> str:
        """The lock as a file has it."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"


def read_lock(path: Path) -> Lock:
    """Raises `LockError`."""
    try:
        return _lock(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise LockError(
            say("This Coppice carries no lock {name}.", name=path.name), say("Choose another build of the engine.")
        ) from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise LockError(
            say("The lock {name} cannot be read ({reason}).", name=path, reason=error), say("Install Coppice again.")
        ) from error


def _lock(stored: dict[str, Any]) -> Lock:
    if stored["format"] != FORMAT:
        raise ValueError(f"format {stored['format']}")
    wheels = tuple(Wheel(**each) for each in stored["wheels"])
    for wheel in wheels:
        if not (_WHEEL.fullmatch(wheel.file) and _SHA256.fullmatch(wheel.sha256) and wheel.bytes > 0):
            raise ValueError(f"the wheel {wheel.file!r}")
    return Lock(stored["build"], stored["python"], int(stored["installed_bytes"]), wheels)
