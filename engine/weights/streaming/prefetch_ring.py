"""A ring of slots that one thread fills ahead of the reader: weights from disk, or on to the compute device."""

import threading
import time
from collections.abc import Callable, Sequence

from engine.errors import Cancelled
from engine.own_thread import threads_allowed

Fill = Callable[[int, int], None]
"""(layer, slot): bring the layer's bytes into the slot; runs on the ring's thread, may take long, may raise."""

OnWait = Callable[[], bool]
"""Do a little other work while a layer is waited for; False if there is none left."""


class PrefetchRing:
    """Layers in a fixed cyclic order, which are acquired and released in that order.

    The thread fills slots ahead of the reader, past the end of a pass, until the ring is full. Loads are numbered
    from 0 and load n lives in slot n % slots. A pass that ends early leaves the head at some layer in the middle:
    acquiring another one restarts the ring there. A fill that raises while its layer is awaited makes that acquire
    raise, and one that raised before, perhaps long ago, is tried again: no layer is ever skipped.
    """

    def __init__(self, name: str, order: Sequence[int], slots: int, fill: Fill) -> None:
        assert slots > 0, "a ring needs a slot"
        self.waited_seconds = 0.0
        self._order = list(order)
        self._place = {layer: place for place, layer in enumerate(self._order)}
        self._slots = slots
        self._fill = fill
        self._changed = threading.Condition()
        self._shift = 0  # load n holds layer order[(n + shift) % len(order)]
        self._released = 0  # loads released; the head is the load of this number
        self._loaded = 0  # loads that are complete
        self._epoch = 0  # grows when the ring restarts: a fill that began before is discarded
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def acquire(self, layer: int, on_wait: OnWait | None = None) -> int:
        """Wait until the layer is there; returns its slot, which stays untouched until `release`.

        While it waits, `on_wait` is called as long as it finds work. Raises what the fill raised.
        """
        begin = time.perf_counter()
        with self._changed:
            is_next = self._order[(self._released + self._shift) % len(self._order)] == layer
            if not is_next or (self._error is not None and self._loaded <= self._released):
                self._restart(layer)
        while on_wait is not None and not self._is_settled() and on_wait():
            pass
        with self._changed:
            self._changed.wait_for(self._is_settled)
            self.waited_seconds += time.perf_counter() - begin
            if self._loaded <= self._released:
                error = self._error or Cancelled()  # no error: closed while somebody waited
                self._restart(layer)
                raise error
            return self._released % self._slots

    def release(self, layer: int) -> None:
        """The acquired layer's slot may be filled again."""
        with self._changed:
            assert self._order[(self._released + self._shift) % len(self._order)] == layer, "released out of order"
            self._released += 1
            self._changed.notify_all()

    @property
    def filling(self) -> int | None:
        """The layer that is being filled in, as seen without a lock; None if there is none."""
        return self._order[(self._loaded + self._shift) % len(self._order)] if self._has_room() else None

    def close(self) -> None:
        """End the thread; returns when it has finished the fill it is in."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _is_settled(self) -> bool:
        return self._loaded > self._released or self._error is not None or self._closed

    def _restart(self, layer: int) -> None:
        self._shift = self._place[layer] - self._released
        self._loaded = self._released
        self._epoch += 1
        self._error = None
        self._changed.notify_all()

    def _has_room(self) -> bool:
        return self._error is None and self._loaded < self._released + self._slots

    def _may_fill(self) -> bool:
        return self._closed or self._has_room()

    def _run(self) -> None:
        threads_allowed()  # else it may copy in one thread for good, see `own_thread`
        while True:
            with self._changed:
                self._changed.wait_for(self._may_fill)
                if self._closed:
                    return
                load, epoch = self._loaded, self._epoch
                layer = self._order[(load + self._shift) % len(self._order)]
            error: BaseException | None = None
            try:
                self._fill(layer, load % self._slots)
            except BaseException as raised:  # noqa: BLE001  # handed to whoever acquires the layer, on its thread
                error = raised
            with self._changed:
                if epoch == self._epoch:
                    self._error = error
                    self._loaded += error is None
                    self._changed.notify_all()
