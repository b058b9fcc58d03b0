"""Whether tests may make symbolic links: on Windows only administrators and developers may."""

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


needs_links = pytest.mark.skipif(os.name == "nt" and not _can_link(), reason="this user may not make links")
