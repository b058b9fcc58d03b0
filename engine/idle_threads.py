"""How the processor's threads work, and what they do between two operations of torch; said before torch is imported."""

import ctypes
import os
import sys
from collections.abc import MutableMapping
from typing import Any

SPINS = "3000"  # of GNU's library for threads: some microseconds, as small models have one operation behind the other
MILLISECONDS = "1"  # of LLVM's and Intel's, which torch has on Windows and macOS; they would spin for 200


def let_idle_threads_sleep(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have torch's threads sleep when they have nothing to do, instead of spinning for milliseconds.

    The loops that multiply with stored weights have threads of their own, on the same cores: beside spinning ones they
    took half as long again (`tests/bench/peers.py`, 22 layers, 33 rows). Whoever has set anything of it has decided.
    """
    if not any(name in environment for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")):
        environment.update({"GOMP_SPINCOUNT": SPINS, "KMP_BLOCKTIME": MILLISECONDS})


# Of processthreadsapi.h: `PROCESS_INFORMATION_CLASS`, and the fields of `PROCESS_POWER_THROTTLING_STATE`.
POWER_THROTTLING, CURRENT_VERSION, EXECUTION_SPEED = 4, 1, 1


class PowerThrottling(ctypes.Structure):
    """`PROCESS_POWER_THROTTLING_STATE`: of the mechanisms in `ControlMask`, those in `StateMask` are switched on."""

    _fields_ = (("Version", ctypes.c_uint32), ("ControlMask", ctypes.c_uint32), ("StateMask", ctypes.c_uint32))


def ask_for_fast_cores() -> None:
    """Have Windows run this process at full speed, on all cores, although it has no window of its own.

    Windows slows down what it takes for background work, and keeps it to the efficient cores of a hybrid processor; so
    it does with priorities below the normal one, which the engine therefore keeps there (HandBrake #4173).
    """
    if sys.platform == "win32":
        forbid_throttling(ctypes.WinDLL("kernel32"))


def forbid_throttling(kernel: Any) -> None:
    """See "SetProcessInformation" in Microsoft's documentation; systems before Windows 10 1709 refuse it.

    `kernel`: kernel32.dll.
    """
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    kernel.SetProcessInformation.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32)
    state = PowerThrottling(CURRENT_VERSION, ControlMask=EXECUTION_SPEED, StateMask=0)
    kernel.SetProcessInformation(
        kernel.GetCurrentProcess(), POWER_THROTTLING, ctypes.byref(state), ctypes.sizeof(state)
    )
