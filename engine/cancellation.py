"""Cancelling as a number: request ids only grow, so there is nothing to clear, and no stop is lost or stale."""

from engine.errors import Cancelled


class Cancellation:
    """Which request runs, and up to which id requests are cancelled. `cancel` may be called from another thread."""

    def __init__(self) -> None:
        self._running = 0
        self._through = -1

    def begin(self, request: int) -> None:
        """Name the request that runs from now on."""
        self._running = request

    def cancel(self, through: int) -> None:
        """Cancel every request whose id is at most `through`, running or yet to come."""
        self._through = max(self._through, through)

    def check(self) -> None:
        """Raise `Cancelled` if the running request is cancelled. Called before every layer, so it must be cheap."""
        if self._running <= self._through:
            raise Cancelled
