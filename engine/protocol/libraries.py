"""Libraries that Windows cannot load: what engine and installation say where one of torch's is concerned."""

import re

from engine.errors import CoppiceError
from engine.protocol.sentences import say

PAGE_FILE = say(
    "Let Windows manage the size of its page file: programs get no more memory than RAM and that file hold together."
)
_REFUSED = say(
    "Smart App Control of Windows, or a rule of this computer, refuses the file, which is not signed. Switch it off in "
    "Windows Security, App and browser control, or ask whoever looks after the computer."
)
_RUNTIME = say(
    "Install the latest Visual C++ Redistributable (x64) from {address}, then start Coppice again.",
    address="https://aka.ms/vs/17/release/vc_redist.x64.exe",
)

# By the numbers of winerror.h. 4551: a policy; 1455: no memory is promised any more, and CUDA's libraries take
# gigabytes of it; 126, 127 and 1114: a library or a function is missing, or its start fails. torch's need the runtime
# of Visual C++, and one that is as new: https://learn.microsoft.com/cpp/windows/latest-supported-vc-redist
_HINTS = (
    (re.compile(r"\[WinError 4551\]|Application Control policy"), _REFUSED),
    (re.compile(r"\[WinError 1455\]"), PAGE_FILE),
    (re.compile(r"\[WinError (126|127|1114)\]|DLL load failed"), _RUNTIME),
)


def library_failure(words: str) -> CoppiceError | None:
    """What to do where an error, in these words of Windows or Python, means that; None for any other."""
    hint = next((hint for known, hint in _HINTS if known.search(words)), None)
    if hint is None:
        return None
    last = words.strip().splitlines()[-1][:300]
    return CoppiceError(say("Windows cannot load a library that the engine needs: {reason}", reason=last), hint)
