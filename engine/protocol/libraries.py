"""Libraries that Windows cannot load: what engine and installation say where one of torch's is concerned."""

import re

from engine.errors import CoppiceError
from engine.protocol.sentences import say

PAGE_FILE = say(
    "Let Windows manage the size of its page file: programs get no more memory than RAM and that file hold together."
)

# Of winerror.h: a module or a function that is not found, and a library that fails while it starts. torch's need the
# runtime of Visual C++, and one that is as new: https://learn.microsoft.com/cpp/windows/latest-supported-vc-redist
_NOT_LOADED = re.compile(r"\[WinError (126|127|1114|1455)\]|DLL load failed")
_NO_MEMORY = "[WinError 1455]"  # those of CUDA take gigabytes of what Windows promises
_RUNTIME = say(
    "Install the latest Visual C++ Redistributable (x64) from {address}, then start Coppice again.",
    address="https://aka.ms/vs/17/release/vc_redist.x64.exe",
)


def library_failure(words: str) -> CoppiceError | None:
    """What to do where an error, in these words of Windows or Python, means that; None for any other."""
    if not _NOT_LOADED.search(words):
        return None
    last = words.strip().splitlines()[-1][:300]
    return CoppiceError(
        say("Windows cannot load a library that the engine needs: {reason}", reason=last),
        PAGE_FILE if _NO_MEMORY in words else _RUNTIME,
    )
