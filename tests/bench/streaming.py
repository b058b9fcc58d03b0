"""A pass over layers that stream from SSD, against reading alone, computing alone, and accelerate's disk offload.

python -m tests.bench.streaming [--gigabytes 1.5] [--rows 1,64] [--passes 5] [--folder DIR] [--json]
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import torch

from engine.cli.contenders import forget
from engine.errors import Cancellation
from engine.loading.loaded_pair import LoadedPair, load_pair
from engine.loading.pair import open_pair
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.streamable_network import build_streamable
from engine.protocol.options import NO_DRAFT, LoadOptions, Place
from engine.weights.store.disk import PIECE_BYTES, DiskReader
from engine.weights.store.layout import LayerLayout, layout_of_shards
from engine.weights.streaming.host_memory import HostArena
from tests.bench.folders import made_folder
from tests.bench.inflate import inflate

CPU, DTYPE = torch.device("cpu"), torch.bfloat16
PREFIX = list(range(100, 164))
REST_SECONDS = 2.0
COLD = 0.9  # the part of the rival's bytes that must come from the disk in a pass


def main() -> None:
    """Measure, and print a table or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.5, help="bytes of the decoder layers")
    parser.add_argument("--rows", default="1,64", help="tokens per pass")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument(
        "--folder", type=made_folder, default=None, help="where the model is made and kept (a real disk)"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        model = inflate(Path(scratch) / "model", int(arguments.gigabytes * 1e9))
        found = measure(model, [int(rows) for rows in arguments.rows.split(",")], arguments.passes)
    json.dump(found, sys.stdout, indent=None if arguments.json else 2)
    sys.stdout.write("\n")


def measure(model: Path, row_counts: Sequence[int], passes: int) -> dict[str, Any]:
    """All figures for one model folder; contenders take turns, and medians are told.

    What a virtual disk gives changes from second to second: only what took turns can be compared.
    """
    layouts = _layouts(model)
    streamed, resident = (_loaded(model, place) for place in ("ssd", "ram"))
    for each in (streamed, resident):
        each.target.prefill(PREFIX)
    found: dict[str, Any] = {
        "model_bytes": sum(layout.nbytes for layout in layouts),
        "threads": torch.get_num_threads(),
        "computed_in": str(streamed.target.network.dtype).removeprefix("torch."),
    }
    with offloaded(model) as accelerate:
        contenders = streamed.target, resident.target, accelerate
        found["rows"] = [_row(rows, passes, *contenders, layouts) for rows in row_counts]
    for each in (streamed, resident):
        each.weights.close()
    return found


def _layouts(model: Path) -> list[LayerLayout]:
    """The layers as they lie in the model's files."""
    converter = build_streamable(open_checkpoint(str(model)), DTYPE, CPU).converter
    found = (layout_of_shards(index, converter.one_to_one(index) or {}) for index in range(len(converter)))
    return [layout for layout in found if layout]


def _loaded(model: Path, place: Place) -> LoadedPair:
    """The model as a person loads it, every layer in this place; the machine is measured for it."""
    cache = str(model.parent / "cache")
    options = LoadOptions(str(model), NO_DRAFT, "cpu", context_tokens=512, place=place, cache_dir=cache)
    steps = load_pair(1, open_pair(options), Cancellation())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            pair: LoadedPair = end.value
            return pair


def _row(
    rows: int,
    passes: int,
    streamed: Context,
    resident: Context,
    accelerate: Callable[[Sequence[int]], float],
    layouts: Sequence[LayerLayout],
) -> dict[str, Any]:
    tokens, parents = list(range(200, 200 + rows)), [-1] + [0] * (rows - 1)
    raws: list[float] = []
    reads: list[float] = []
    computes, streaks, rivals = [], [], []

    # Pass upon pass, as a text is written, so that none finds its first layers there for nothing, nor a disk that has
    # rested: the first of three does not count.
    def ours() -> None:
        streaks.extend([_score(streamed, tokens, parents) for _ in range(3)][1:])

    def theirs() -> None:
        rivals.extend([accelerate(tokens) for _ in range(3)][1:])

    for turn in range(passes):
        time.sleep(REST_SECONDS)  # until the ring is full: it must not read while others are timed
        alone = ((raws, raw_seconds), (reads, read_seconds))
        for kept, run in alone if turn % 2 else reversed(alone):
            kept.append(run(layouts))
        computes.append(_score(resident, tokens, parents))
        for contender in (ours, theirs) if turn % 2 else (theirs, ours):  # a disk gives less to whoever comes later
            contender()
            time.sleep(REST_SECONDS)
    raw, read, compute, streak, rival = (
        statistics.median(seconds) for seconds in (raws, reads, computes, streaks, rivals)
    )
    return {
        "rows": rows,
        "read_seconds": read,
        "read_gb_per_second": sum(layout.nbytes for layout in layouts) / read / 1e9,
        "read_rate_over_raw": raw / read,
        "compute_seconds": compute,
        "pass_seconds": streak,
        "pass_over_bound": streak / max(read, compute),
        "accelerate_seconds": rival,
        "accelerate_over_ours": rival / streak,
    }


def _score(context: Context, tokens: Sequence[int], parents: Sequence[int]) -> float:
    begin = time.perf_counter()
    context.score(tokens, parents, last=1)
    seconds = time.perf_counter() - begin
    context.rewind(len(PREFIX))
    return seconds


def read_seconds(layouts: Sequence[LayerLayout]) -> float:
    """Reading every layer once with nothing else going on."""
    reader = DiskReader(layouts)
    buffer = HostArena(max(layout.nbytes for layout in layouts)).take(max(layout.nbytes for layout in layouts))
    buffer.zero_()  # memory that was never touched would be timed too
    begin = time.perf_counter()
    for layout in layouts:
        reader.read(layout, buffer)
    seconds = time.perf_counter() - begin
    reader.close()
    return seconds


def raw_seconds(layouts: Sequence[LayerLayout]) -> float:
    """As many bytes of the same files by plain direct reads of a size that suits the disk, and no code of ours.

    They go through memory as large as a layer, as they must to be of use: into one small block that stays in the
    processor's cache, a virtual disk here reads half as fast again.
    """
    memory = HostArena(max(layout.nbytes for layout in layouts)).take(max(layout.nbytes for layout in layouts))
    target = memoryview(memory.zero_().numpy())  # type: ignore[arg-type]
    places = max(1, len(target) // PIECE_BYTES)
    total, begin = 0, time.perf_counter()
    for path in {segment.path for layout in layouts for segment in layout.segments}:
        file, offset = os.open(path, os.O_RDONLY | os.O_DIRECT), 0
        while offset % 4096 == 0:
            place = offset // PIECE_BYTES % places * PIECE_BYTES
            got = os.preadv(file, [target[place : place + PIECE_BYTES]], offset)
            if not got:
                break
            offset += got
        os.close(file)
        total += offset
    return (time.perf_counter() - begin) * sum(layout.nbytes for layout in layouts) / total


@contextmanager
def offloaded(model: Path) -> Iterator[Callable[[Sequence[int]], float]]:
    """Seconds of a pass with accelerate's `disk_offload`, its files dropped from the page cache before each."""
    from accelerate import disk_offload
    from transformers import AutoModelForCausalLM

    @torch.inference_mode()
    def cold_pass(tokens: Sequence[int]) -> float:
        forget(Path(folder))
        read, begin = psutil.Process().io_counters().read_bytes, time.perf_counter()
        network(input_ids=torch.tensor([list(tokens)]), use_cache=False, logits_to_keep=1)
        seconds = time.perf_counter() - begin
        read = psutil.Process().io_counters().read_bytes - read
        assert read > COLD * stored, f"only {read} of {stored} bytes came from the disk"
        return seconds

    with tempfile.TemporaryDirectory(dir=model.parent) as folder:
        network = AutoModelForCausalLM.from_pretrained(model, dtype=DTYPE).eval()
        disk_offload(network, folder, execution_device=CPU)
        os.sync()  # what still has to be written stays in memory, whoever wants to forget it
        stored = sum(file.stat().st_size for file in Path(folder).iterdir())
        yield cold_pass


if __name__ == "__main__":
    main()
