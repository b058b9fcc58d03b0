"""Finds numba, tells it where compiled code is kept, and compiles. Nothing here imports it before it is asked for.

Code that numba keeps is found again by what is in the function itself, not in those that it calls. So it lies in a
folder for this very state of the sources: others are removed once nobody has used them for long.
"""

import hashlib
import importlib.util
import logging
import os
import re
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from engine.files import is_own

F = TypeVar("F", bound=Callable[..., Any])

USED = "used"  # a file in each folder: writing it anew at every start says that the folder is in use
PRIVATE, OTHERS = 0o700, stat.S_IRWXG | stat.S_IRWXO
UNUSED_SECONDS = 30 * 24 * 3600  # another Coppice may run beside this one

WIDENING = "define <8 x float> @f(<8 x half> %x) {\n %y = fpext <8 x half> %x to <8 x float>\n ret <8 x float> %y\n}"
CALLS_TO_WIDEN = re.compile("extendhf|h2f")

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
    except (ImportError, OSError, RuntimeError, SystemError) as error:  # a numpy that is too new, a blocked library
        _log.warning("Weights are decoded by torch: numba cannot be imported: %s", error)
        return False
    return _widens_halves()


def _widens_halves() -> bool:
    """Whether the processor that numba compiles for widens float16 by itself.

    Elsewhere LLVM would call a function that is not there, and end the process when it does not find it.
    """
    from llvmlite import binding  # noqa: PLC0415
    from numba.core.registry import cpu_target  # noqa: PLC0415

    module = binding.parse_assembly(WIDENING)
    return not CALLS_TO_WIDEN.search(cpu_target.target_context.codegen()._tm.emit_assembly(module))


def compiled(function: F) -> F:
    """`function` as machine code, made at its first call for arguments of these types; it lets other threads run.

    Sums and products stay as they are written: what may be contracted says so itself.
    """
    import numba  # noqa: PLC0415

    made = numba.njit(nogil=True, error_model="numpy")(function)
    _keep_code_of(made, function)
    return cast(F, made)


def callback(signature: Any, function: Callable[..., None]) -> Any:
    """`function` as machine code with an `address`, for arguments of these types of numba.

    It may have no closure: kept code is found by the types of its arguments.
    """
    from numba.core.ccallback import CFunc  # noqa: PLC0415  # `numba.cfunc` knows no cache but its own

    made = CFunc(function, (signature.args, signature.return_type), locals={}, options={"error_model": "numpy"})
    _keep_code_of(made, function)
    made.compile()
    return made


def _keep_code_of(made: Any, function: Callable[..., object]) -> None:
    """Have numba keep code in the folder, if there is one."""
    import numba  # noqa: PLC0415

    from engine.model.products.code_cache import CodeCache  # noqa: PLC0415

    folder = kept_folder()
    if folder is None:
        return
    numba.config.CACHE_DIR = str(folder)
    with suppress(OSError, RuntimeError):  # where numba finds no place to write
        made._cache = CodeCache(function)


@lru_cache(maxsize=1)
def kept_folder() -> Path | None:
    """The folder for code of these sources, which exists and can be written, by nobody else; None to keep nothing."""
    if _Folder.path is None:
        return None
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        with suppress(OSError):
            digest.update(source.read_bytes())
    folder = _Folder.path / digest.hexdigest()[:16]
    try:
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        if not _is_private(folder):
            _log.warning("Compiled code is not kept in %s: it is another user's.", folder)
            return None
        (folder / USED).unlink(missing_ok=True)
        (folder / USED).touch()
        for other in _Folder.path.iterdir():
            if time.time() - other.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
    except OSError:
        return None
    return folder


def _is_private(folder: Path) -> bool:
    """Whether only this user can enter it, as it is from now on: what is kept there is run. Raises `OSError`."""
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or not is_own(state):
        return False
    if os.name == "posix" and state.st_mode & OTHERS:
        folder.chmod(PRIVATE)
        return not folder.lstat().st_mode & OTHERS
    return True
