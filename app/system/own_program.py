"""How this program starts others of its own, which do work beside the window: their command lines and environment."""

import os
import sys

from app.system.bundle import is_frozen, root

_PASSED_ON = (  # of the environment: what a Python needs to start, and nothing that is secret
    *("PATH", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "TEMP", "TMP", "TMPDIR", "LANG", "LC_ALL"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME"),
)


def command(word: str, module: str) -> list[str]:
    """Runs `module`, which `word` names in a packaged program, as that has no Python to start."""
    return [sys.executable, word] if is_frozen() else [sys.executable, "-m", module]


def limit_memory(address_bytes: int) -> None:
    """For such a program itself, where the system can: what asks for more fails, and nothing else on the machine."""
    if sys.platform == "linux":
        import resource  # noqa: PLC0415

        resource.setrlimit(resource.RLIMIT_AS, (address_bytes, address_bytes))


def environment() -> dict[str, str]:
    """What the process gets."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    passed["PYTHONSAFEPATH"] = "1"  # a folder named `app` where the person happens to be is not ours
    if not is_frozen():
        passed["PYTHONPATH"] = str(root())
    return passed
