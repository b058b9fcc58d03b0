"""A cable between two network namespaces of Linux, which can be slow, lose packets, and be cut: a relay of packets.

Not every kernel has `sch_netem`, so each namespace has a TUN device, and a thread carries what comes out of the one to
the other. Needs root, iproute2 and `/dev/net/tun`.
"""

import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_LARGEST_PACKET = 65_536


class Cable:
    """Carries packets both ways. `delay`, `jitter`: seconds; `loss`: the share of packets that never arrive."""

    def __init__(self, spaces: Mapping[str, str]) -> None:
        """`spaces`: the two namespaces, each with the address that it gets, of one network."""
        self.delay = self.jitter = self.loss = 0.0
        self._random = random.Random(7)
        self._ends = [_end(space, address, f"cable-{number}") for number, (space, address) in enumerate(spaces.items())]
        self._is_laid = True
        self._relay = threading.Thread(target=self._carry, daemon=True)
        self._relay.start()

    def change(self, delay: float = 0.0, jitter: float = 0.0, loss: float = 0.0) -> None:
        """Treat the packets so from now on; a loss of 1 is a cut."""
        self.delay, self.jitter, self.loss = delay, jitter, loss

    def close(self) -> None:
        """Take it away."""
        self._is_laid = False
        self._relay.join()
        for end in self._ends:
            os.close(end)

    def _carry(self) -> None:
        waiting: list[tuple[float, int, bytes, int]] = []  # when, in which order, what, where to
        number = 0
        while self._is_laid:
            patience = max(0.0, min(0.05, waiting[0][0] - time.monotonic())) if waiting else 0.05
            ready, _, _ = select.select(self._ends, [], [], patience)
            for end in ready:
                packet, other = os.read(end, _LARGEST_PACKET), self._ends[end == self._ends[0]]
                if self._random.random() >= self.loss:
                    number += 1
                    due = time.monotonic() + self.delay + self._random.uniform(-1, 1) * self.jitter
                    heapq.heappush(waiting, (due, number, packet, other))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, packet, other = heapq.heappop(waiting)
                os.write(other, packet)


def _end(space: str, address: str, name: str) -> int:
    end = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TUN | _IFF_NO_PI))
    _ip("link", "set", name, "netns", space)
    _ip("-n", space, "address", "add", f"{address}/24", "dev", name)
    for device in (name, "lo"):
        _ip("-n", space, "link", "set", device, "up")
    return end


@contextmanager
def connected(spaces: Mapping[str, str]) -> Iterator[Cable]:
    """Two namespaces with a cable between them. Raises `OSError` or `CalledProcessError` where that is not allowed."""
    _remove(spaces)
    try:
        for space in spaces:
            _ip("netns", "add", space)
        cable = Cable(spaces)
        try:
            yield cable
        finally:
            cable.close()
    finally:
        _remove(spaces)


def _ip(*command: str) -> None:
    subprocess.run(("ip", *command), check=True, capture_output=True, text=True)


def _remove(spaces: Mapping[str, str]) -> None:
    for space in spaces:
        subprocess.run(("ip", "netns", "del", space), check=False, capture_output=True)
