"""Libraries that Windows cannot load: what engine and installation say where one of torch's is concerned."""

import re

from engine.errors import CoppiceError
from engine.protocol.sentences import say

# Of winerror.h: a module or a function that is not found, and a library that fails while it starts. torch's need the
# runtime of Visual C++, and one that is as new: https://learn.microsoft.com/cpp/windows/latest-supported-vc-redist
_NOT_LOADED = re.compile(r"\[WinError (126|127|1114)\]|DLL load failed")


def library_failure(words: str) -> CoppiceError | None:
    """What to do where an error, in these words of Windows or Python, means that; None for any other."""
    if not _NOT_LOADED.search(words):
        return None
    last = words.strip().splitlines()[-1][:300]
    return CoppiceError(
        say("Windows cannot load a library that the engine needs: {reason}", reason=last),
        say(
            "Install the latest Visual C++ Redistributable (x64) from {address}, then start Coppice again.",
            address="https://aka.ms/vs/17/release/vc_redist.x64.exe",
        ),
    )
