"""Finds numba, tells it where compiled code is kept, and compiles. Nothing here imports it before it is asked for.

Code that numba keeps is found again by what is in the function itself, not in those that it calls. So it lies in a
folder for this very state of the sources: others are removed once nobody has used them for long.
"""

import hashlib
import importlib.util
import logging
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

USED = "used"  # a file in each folder: writing it anew at every start says that the folder is in use
UNUSED_SECONDS = 30 * 24 * 3600  # another Coppice may run beside this one

_log = logging.getLogger(__name__)


class _Folder:
    path: Path | None = None


def keep_compiled_in(folder: Path) -> None:
    """Keep compiled code below `folder`, for this process and later ones; says so before anything is compiled."""
    _Folder.path = folder


@lru_cache(maxsize=1)
def has_compiler() -> bool:
    """Whether numba can be imported: without it nothing here computes. The first call takes about a second."""
    if importlib.util.find_spec("numba") is None:
        return False
    try:
        import numba  # noqa: F401, PLC0415  # a second long, and only for weights that are multiplied as they are stored
        from llvmlite import binding  # noqa: PLC0415
    except (ImportError, OSError, RuntimeError, SystemError) as error:  # a numpy that is too new, a blocked library
        _log.warning("Weights are decoded by torch: numba cannot be imported: %s", error)
        return False
    # Where processors do not widen float16, LLVM would call a function that is not there.
    return bool(binding.get_host_cpu_features().get("f16c", True))


def compiled(function: F) -> F:
    """`function` as machine code, made at its first call for arguments of these types; it lets other threads run.

    Sums and products stay as they are written: what may be contracted says so itself.
    """
    import numba  # noqa: PLC0415

    return cast(F, numba.njit(nogil=True, error_model="numpy", cache=kept_code())(function))


def kept_code() -> bool:
    """Whether compiled code is kept; says where to numba."""
    import numba  # noqa: PLC0415

    folder = _kept()
    if folder is not None:
        numba.config.CACHE_DIR = str(folder)
    return folder is not None


@lru_cache(maxsize=1)
def _kept() -> Path | None:
    """The folder for code of these sources, which exists and can be written; None to keep nothing."""
    if _Folder.path is None:
        return None
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        with suppress(OSError):
            digest.update(source.read_bytes())
    folder = _Folder.path / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / USED).unlink(missing_ok=True)
        (folder / USED).touch()
        for other in _Folder.path.iterdir():
            if time.time() - other.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
    except OSError:
        return None
    return folder
