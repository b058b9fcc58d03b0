"""Links and pipes that tests make where they may: on Windows only administrators and developers may make links."""

import os
import tempfile
from pathlib import Path

import pytest


def _can_link() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder, "link")
        try:
            link.symlink_to("elsewhere")
        except OSError:
            return False
        return link.is_symlink()


CAN_LINK = os.name != "nt" or _can_link()
needs_links = pytest.mark.skipif(not CAN_LINK, reason="this user may not make links")


def make_link(link: Path, target: str | Path) -> None:
    """Make a symbolic link, or skip the test where this user may not."""
    if not CAN_LINK:
        pytest.skip("this user may not make links")
    link.symlink_to(target)


def make_pipe(path: Path) -> None:
    """Make a named pipe in a folder, or skip the test where there is no such thing."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no named pipes in folders")
    os.mkfifo(path)
