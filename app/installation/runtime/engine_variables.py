"""What the engine gets of the environment: what is on the list, and nothing that looks like a secret.

The engine reads files that strangers wrote. It needs no hub, so it gets no token of one, and no proxy.
"""

import re
from collections.abc import Mapping

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
_PREFIXES = (
    "LC_", "XDG_", "COPPICE_",
    "CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_", "NCCL_", "NVRTC_", "GPU_", "HIP_", "HSA_", "ROCM_", "ROCR_", "ROCBLAS_",
    "HIPBLASLT_", "MIOPEN_", "AMD_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "ATEN_", "TRITON_", "BNB_",
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "VECLIB_", "DNNL_", "ONEDNN_", "NUMEXPR_", "MALLOC_",
    "BITSANDBYTES_", "TOKENIZERS_",
)  # fmt: skip
_SECRET_NAME = re.compile(r"TOKEN(?!IZERS)|SECRET|PASSW|CREDENTIAL|AUTH(?!OR)|(^|_)(API_?)?KEY(_|$|S$)|PROXY")
_SECRET_VALUE = re.compile(r"://[^/\s@]+@|\bhf_[A-Za-z0-9]{30,}")


def engine_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Those variables that the engine gets."""
    return {
        name: value for name, value in variables.items() if _is_needed(name.upper()) and not _is_secret(name, value)
    }


def _is_needed(name: str) -> bool:
    return name in _NAMES or name.startswith(_PREFIXES)


def _is_secret(name: str, value: str) -> bool:
    return bool(_SECRET_NAME.search(name.upper()) or _SECRET_VALUE.search(value))
