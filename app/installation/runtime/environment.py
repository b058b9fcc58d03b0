"""The environment of other programs: nothing that the packaged window needs for itself, no secret for the engine."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from app.system.bundle import is_frozen, root

_NAMES = frozenset({
    # who and where: libraries look for their folders and their caches
    "HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "TEMP", "TMP", "TZ", "TZDIR", "LANG", "LANGUAGE",
    "SYSTEMROOT", "WINDIR", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "OS", "USERNAME", "USERPROFILE", "HOMEDRIVE",
    "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "ALLUSERSPROFILE", "PROGRAMFILES", "PROGRAMFILES(X86)",
    "PROGRAMW6432", "COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)", "COMMONPROGRAMW6432", "NUMBER_OF_PROCESSORS",
    "PROCESSOR_ARCHITECTURE", "PROCESSOR_IDENTIFIER", "PROCESSOR_LEVEL", "PROCESSOR_REVISION",
    # libraries of the system
    "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH", "DYLD_FALLBACK_LIBRARY_PATH",
    "LIBPATH",
    # where models lie that are on this computer
    "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
    # its Python, from a checkout and in tests
    "PYTHONPATH", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONHASHSEED", "PYTHONSAFEPATH", "PYTHONNOUSERSITE",
    "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER", "PYTHONWARNINGS", "PYTHONDEVMODE", "PYTHONDONTWRITEBYTECODE",
    "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE", "VIRTUAL_ENV", "CONDA_PREFIX",
})  # fmt: skip
_ENGINE_PREFIXES = (
    "LC_", "XDG_", "COPPICE_",
    "CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_", "NCCL_", "NVRTC_", "GPU_", "HIP_", "HSA_", "ROCM_", "ROCR_", "ROCBLAS_",
    "HIPBLASLT_", "MIOPEN_", "AMD_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "ATEN_", "TRITON_", "BNB_",
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "VECLIB_", "DNNL_", "ONEDNN_", "NUMEXPR_", "MALLOC_",
    "BITSANDBYTES_", "TOKENIZERS_", "NUMBA_",
)  # fmt: skip
_SECRET_NAME = re.compile(r"TOKEN(?!IZERS)|SECRET|PASSW|CREDENTIAL|AUTH(?!OR)|(^|_)(API_?)?KEY(_|$|S$)|PROXY")
_SECRET_VALUE = re.compile(r"://[^/\s@]+@|\bhf_[A-Za-z0-9]{30,}")


def engine_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Those variables that the engine gets."""
    return {
        name: value for name, value in variables.items() if _is_needed(name.upper()) and not _is_secret(name, value)
    }


def _is_needed(name: str) -> bool:
    return name in _NAMES or name.startswith(_ENGINE_PREFIXES)


def _is_secret(name: str, value: str) -> bool:
    return bool(_SECRET_NAME.search(name.upper()) or _SECRET_VALUE.search(value))


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
