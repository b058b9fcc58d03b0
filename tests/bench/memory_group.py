"""Holds a process, and the page cache that it fills, to so many bytes: by a control group, where one may be made."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MOUNT, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
LIMITS = ("memory.limit_in_bytes", "memory.max")  # of version 1 and 2


class GroupError(Exception):
    """No group may be made here; says why."""


@contextmanager
def held_to(limit_bytes: int, mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> Iterator[list[str]]:
    """The words to put before a command, so that it runs in a group of that limit; the group is removed at the end.

    It lies below the group that this process is in. Raises `GroupError`.
    """
    folder: Path | None = None
    try:
        folder = _make(limit_bytes, mount, membership)
        words = ["sh", "-c", f'echo $$ > "{folder}/cgroup.procs" && exec "$@"', "sh"]
    except OSError as error:
        words = _by_systemd(limit_bytes, error)
    try:
        yield words
    finally:
        if folder:
            with suppress(OSError):  # a process that was not ended by its owner keeps it
                folder.rmdir()


def _make(limit_bytes: int, mount: Path, membership: Path) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="held-", dir=_own(mount, membership)))
    for name in LIMITS:
        if (folder / name).exists():
            (folder / name).write_text(str(limit_bytes))
            return folder
    folder.rmdir()
    raise OSError("groups made here have no limit of memory")


def _own(mount: Path, membership: Path) -> Path:
    """The folder of this process's group: of version 1's memory controller, else of version 2."""
    lines = [line.split(":", 2) for line in membership.read_text(encoding="utf-8").splitlines()]
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return mount / "memory" / path.lstrip("/")
    for _, controllers, path in lines:
        if not controllers:
            return mount / path.lstrip("/")
    raise OSError("there are no control groups of memory")


def _by_systemd(limit_bytes: int, first: OSError) -> list[str]:
    """Under version 2 only a group without processes of its own may have limited ones below it: systemd has some."""
    if systemd := shutil.which("systemd-run"):
        limits = ["-p", f"MemoryMax={limit_bytes}", "-p", "MemorySwapMax=0"]
        command = [systemd, "--user", "--scope", "--quiet", *limits]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    raise GroupError(f"no control group may be made: {first}") from first
