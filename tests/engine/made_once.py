"""Model folders that many tests want: made once, and copied for each, which may then change its own as it likes."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_made: dict[str, Path] = {}


def copy_made_once(key: object, make: Callable[[Path], object], folder: Path) -> None:
    """Copy into `folder` what `make` puts into an empty folder; the `repr` of `key` says all that it depends on."""
    name = repr(key)
    if name not in _made:
        made = Path(tempfile.mkdtemp(prefix="made-once-"))  # below the home of this run, which removes it
        make(made)
        _made[name] = made
    # Without the times of the first one: files that were written now look like it.
    shutil.copytree(_made[name], folder, copy_function=shutil.copyfile, dirs_exist_ok=True)
