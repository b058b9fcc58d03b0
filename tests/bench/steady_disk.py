"""A disk that keeps to a rate, for the length of a benchmark: a virtual one changes its mind from second to second."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout


@contextmanager
def steady_disk(bytes_per_second: float) -> Iterator[list[bool]]:
    """A disk that reads at this rate, or slower where it must; yields for every read of a layer whether it was late."""
    read = DiskReader.read
    late: list[bool] = []

    def steady(reader: DiskReader, layout: LayerLayout, buffer: Tensor) -> None:
        begin = time.perf_counter()
        read(reader, layout, buffer)
        left = begin + layout.nbytes / bytes_per_second - time.perf_counter()
        late.append(left < 0)
        time.sleep(max(left, 0.0))

    DiskReader.read = steady  # type: ignore[method-assign, assignment]  # another disk, for the length of a benchmark
    try:
        yield late
    finally:
        DiskReader.read = read  # type: ignore[method-assign]
