"""How much memory the system still grants this process's control group; containers set such limits."""

from collections.abc import Iterator
from pathlib import Path

MOUNT, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")

# What each version of control groups calls its limit, its use, and the page cache in it that is given back first.
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = ("memory.max", "memory.current", "inactive_file")


def granted_bytes(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> int | None:
    """Bytes that may still be taken, the least of this group and all above it; None where nothing limits them."""
    rooms = [_room(group, *files) for group, files in _groups(mount, membership)]
    return min((room for room in rooms if room is not None), default=None)


def _groups(mount: Path, membership: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """The folders of this process's groups and of those above; a container may see the lower part of the path only."""
    for line in _lines(membership):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            root, files = mount / "memory", V1
        elif number == "0":
            root, files = mount, V2
        else:
            continue
        group = root / path.strip("/")
        yield root, files
        while group != root and root in group.parents:
            yield group, files
            group = group.parent


def _room(group: Path, limit_file: str, used_file: str, reclaimable: str) -> int | None:
    limit, used = _number(group / limit_file), _number(group / used_file)
    if limit is None or used is None:
        return None
    statistics = dict(line.split()[:2] for line in _lines(group / "memory.stat") if len(line.split()) == 2)
    return max(0, limit - used + int(statistics.get(reclaimable, "0")))


def _number(path: Path) -> int | None:
    """The number that the file holds; None where there is none, as in `max`."""
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdecimal() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
