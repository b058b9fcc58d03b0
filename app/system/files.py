"""The application's own files, which their owner alone may read, and files at places that a person chose.

Both are replaced as a whole: see `engine.files`.
"""

import os
import stat
from pathlib import Path

from app.system.private_files import shared_mode
from engine.files import Replacement, fill, write_atomically

PRIVATE = 0o600


def write_private(path: Path, content: bytes) -> None:
    """Replace a file of the application. Raises `OSError`; then the old one is as it was."""
    write_atomically(path, content, PRIVATE)


def write_chosen(path: Path, content: bytes) -> None:
    """The same for a place that a person chose: see `chosen_replacement`."""
    fill(chosen_replacement(path), content)


def chosen_replacement(path: Path) -> Replacement:
    """What replaces a file at a place that a person chose.

    A link stays one: what it points to is replaced. A new file is open to those whom the person's umask lets in; one
    that was there keeps its mode.
    """
    target = Path(os.path.realpath(path))
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else shared_mode(0o666)
    made = Replacement(target, PRIVATE)
    if os.name != "nt":
        os.fchmod(made.file.fileno(), mode)
    return made
