"""The environment that other programs are started with: what the packaged window needs for itself does not leak."""

import os
from collections.abc import Mapping
from pathlib import Path

from app.installation.runtime.engine_variables import engine_variables
from app.system.bundle import is_frozen, root

LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH", "LIBPATH")
_OURS = (
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "PYTHONPLATLIBDIR",
    "PYTHONDONTWRITEBYTECODE",  # without a cache every start of the engine compiles torch anew
    "PYTHONPYCACHEPREFIX",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
)
_PREFIXES = ("QT_", "QML", "_PYI_", "_MEIPASS", "PYINSTALLER_", "PYTHONUSER", "PIP_", "UV_PROJECT")


def clean_environment(
    variables: Mapping[str, str], folder: Path | None = None, frozen: bool | None = None
) -> dict[str, str]:
    """What a program that is no part of this one should see.

    A packaged window runs with the library paths of its own `folder`: the former ones come back. From a checkout they
    are the person's own, and stay.
    """
    packaged = is_frozen() if frozen is None else frozen
    clean = {name: value for name, value in variables.items() if not _is_ours(name)}
    if packaged:
        for name in LIBRARY_PATHS:
            _restore(clean, name, [folder or root().parent, *_mounted(variables)])
    return clean


def _is_ours(name: str) -> bool:
    return name in _OURS or name.startswith(_PREFIXES)


def _restore(variables: dict[str, str], name: str, folders: list[Path]) -> None:
    """The value from before the bundle's start, or what is left of it without the bundle's own folders."""
    value = variables.pop(name, "")
    value = variables.pop(f"{name}_ORIG", value)
    kept = [each for each in value.split(os.pathsep) if each and not any(Path(each).is_relative_to(f) for f in folders)]
    if kept:
        variables[name] = os.pathsep.join(kept)


def _mounted(variables: Mapping[str, str]) -> list[Path]:
    """Where an AppImage is mounted, if this is one."""
    return [Path(variables["APPDIR"])] if variables.get("APPDIR") else []


def engine_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """For the engine's Python: its own packages, and our sources before them; nothing of the folder where it stands.

    Of the person's variables it gets those that it needs, and no secret.
    """
    return engine_variables(clean_environment(variables)) | {
        "PYTHONPATH": str(root()),
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
    }
