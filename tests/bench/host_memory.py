"""What huge pages give: products with weights in RAM and copies of them, from 4 KiB pages and from huge ones in turns.

python -m tests.bench.host_memory [--gigabytes 1.0] [--rows 1,64] [--turns 7] [--threads N] [--json]
"""

import argparse
import json
import mmap
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from engine.weights.streaming.host_memory import HostArena
from tests.engine.weights.reading import huge_page_bytes

WIDTH = 4096
DTYPE = torch.bfloat16
MATRIX_BYTES = WIDTH * WIDTH * DTYPE.itemsize


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="bytes of weights, once in each kind of page")
    parser.add_argument("--rows", default="1,64", help="tokens per product")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true", help="in one line")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = [int(each) for each in arguments.rows.split(",")]
    found = measure(int(arguments.gigabytes * 1e9), rows, arguments.turns)
    json.dump(found, sys.stdout, indent=None if arguments.json else 2)
    sys.stdout.write("\n")


@torch.inference_mode()
def measure(nbytes: int, row_counts: Sequence[int], turns: int) -> dict[str, Any]:
    """Processor seconds by kind of work and of page, medians of runs that take turns; the gain is small over huge.

    Processor time, of all threads: other programs that compute meanwhile are not in it.
    """
    count = max(1, nbytes // MATRIX_BYTES)
    arena = HostArena(count * MATRIX_BYTES)
    faulted: dict[str, float] = {}
    huge = _timed(faulted, "huge", lambda: arena.take(count * MATRIX_BYTES))
    small = _timed(faulted, "small", lambda: _small_pages(count * MATRIX_BYTES))
    weights = {name: each.view(DTYPE).view(count, WIDTH, WIDTH) for name, each in (("small", small), ("huge", huge))}
    for each in weights.values():
        each.normal_(std=0.01)
    works: dict[str, Callable[[Tensor], object]] = {f"product, {rows} rows": _product(rows) for rows in row_counts}
    works["copy"] = _copy()
    result: dict[str, Any] = {
        "bytes": arena.nbytes,
        "huge_page_share": huge_page_bytes(arena) / arena.nbytes,
        "first_touch_processor_seconds": faulted,
    }
    for name, work in works.items():
        seconds: dict[str, list[float]] = {"small": [], "huge": []}
        for _ in range(turns):
            for kind, stacked in weights.items():
                begin = time.process_time()
                for matrix in stacked:
                    work(matrix)
                seconds[kind].append(time.process_time() - begin)
        medians = {kind: statistics.median(each) for kind, each in seconds.items()}
        result[name] = {**medians, "gain": medians["small"] / medians["huge"]}
    return result


def _small_pages(nbytes: int) -> Tensor:
    """Memory in pages of 4 KiB, touched."""
    mapping = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapping.madvise(mmap.MADV_NOHUGEPAGE)
    memory = torch.frombuffer(mapping, dtype=torch.uint8)
    memory[:: mmap.PAGESIZE] = 0
    return memory


def _timed(into: dict[str, float], name: str, work: Callable[[], Tensor]) -> Tensor:
    begin = time.process_time()
    made = work()
    into[name] = time.process_time() - begin
    return made


def _product(rows: int) -> Callable[[Tensor], object]:
    states = torch.randn(rows, WIDTH).to(DTYPE)
    return lambda matrix: linear(states, matrix)


def _copy() -> Callable[[Tensor], object]:
    target = torch.empty(WIDTH, WIDTH, dtype=DTYPE)
    return target.copy_


if __name__ == "__main__":
    main()
