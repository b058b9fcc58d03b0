"""What the processor's threads do between two operations of torch; said before torch is imported."""

import os
from collections.abc import MutableMapping

SPINS = "3000"  # of GNU's library for threads: some microseconds, as small models have one operation behind the other
MILLISECONDS = "1"  # of LLVM's and Intel's, which torch has on Windows and macOS; they would spin for 200


def let_idle_threads_sleep(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have torch's threads sleep when they have nothing to do, instead of spinning for milliseconds.

    The loops that multiply with stored weights have threads of their own, on the same cores: beside spinning ones they
    took half as long again (`tests/bench/peers.py`, 22 layers, 33 rows). Whoever has set anything of it has decided.
    """
    if not any(name in environment for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")):
        environment.update({"GOMP_SPINCOUNT": SPINS, "KMP_BLOCKTIME": MILLISECONDS})
