"""How fast bytes come along a way, as it was of late: disks shared with others are now fast, now slow."""

KEPT = 0.98  # how much every figure counts when the next one comes: the last fifty decide


class Flow:
    """A running rate. Slow pieces count by their time, so that a moment's stall does not pass for the way's pace."""

    def __init__(self) -> None:
        self._bytes = self._seconds = 0.0

    def add(self, nbytes: int, seconds: float) -> None:
        """So many bytes came in this time."""
        self._bytes = KEPT * self._bytes + nbytes
        self._seconds = KEPT * self._seconds + seconds

    @property
    def bytes_per_second(self) -> float:
        """0 as long as nothing came."""
        return self._bytes / self._seconds if self._seconds > 0 else 0.0
