"""A name for the volume that a path lies on. It stays the same after a restart, unlike device numbers."""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.files import file_state

MOUNTS, BY_UUID = Path("/proc/self/mountinfo"), Path("/dev/disk/by-uuid")
_ESCAPED = re.compile(r"\\([0-7]{3})")
_WITH_LASTING_ID = ("ext2", "ext3", "ext4", "btrfs")  # their `f_fsid` comes from the UUID within the file system


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of `/proc/self/mountinfo`: where, what kind, and of what."""

    point: Path
    kind: str
    source: str


def volume_of(path: Path, mounts: Path = MOUNTS, by_uuid: Path = BY_UUID) -> str:
    """The volume that holds `path`, or will.

    On Windows its serial number; on Linux the UUID of its file system, else the id that its file system has, else its
    source and where it is mounted; elsewhere the place where it is mounted.
    """
    path = _existing(path)
    if sys.platform == "win32":
        return f"volume {path.stat().st_dev:x}"
    mount = _mount_of(path, mounts)
    if mount is None:
        return f"mounted at {_mount_point(path)}"
    if uuid := _uuid_of(mount.source, by_uuid):
        return f"uuid {uuid}"
    if mount.kind in _WITH_LASTING_ID and (number := os.statvfs(path).f_fsid):
        return f"{mount.kind} {number:x}"
    return f"{mount.kind} {mount.source} at {mount.point}"


def _existing(path: Path) -> Path:
    path = Path(os.path.realpath(path))
    while file_state(path) is None and path != path.parent:  # also where it cannot be looked at
        path = path.parent
    return path


def _mount_of(path: Path, mounts: Path) -> Mount | None:
    """The mount that is deepest above the path; of several at one place the last, which hides the others."""
    found: Mount | None = None
    for each in _mounts(mounts):
        if path.is_relative_to(each.point) and (found is None or len(each.point.parts) >= len(found.point.parts)):
            found = each
    return found


def _mounts(mounts: Path) -> list[Mount]:
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        place, separator, about = line.partition(" - ")
        fields, kinds = place.split(" "), about.split(" ")
        if separator and len(fields) > 4 and len(kinds) > 1:
            found.append(Mount(Path(_plain(fields[4])), kinds[0], _plain(kinds[1])))
    return found


def _plain(text: str) -> str:
    """Undo the octal numbers that blanks and the like are written as."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)


def _uuid_of(source: str, by_uuid: Path) -> str:
    if not source.startswith("/"):
        return ""
    try:
        links = sorted(by_uuid.iterdir())
    except OSError:
        return ""
    device = os.path.realpath(source)
    return next((link.name for link in links if os.path.realpath(link) == device), "")


def _mount_point(path: Path) -> Path:
    while not os.path.ismount(path) and path != path.parent:
        path = path.parent
    return path
