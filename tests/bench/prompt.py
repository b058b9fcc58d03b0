"""A long prompt through layers that stream from SSD: in one pass over them, and in a pass for every 1,024 tokens.

python -m tests.bench.prompt [--gigabytes 0.5] [--tokens 4096] [--turns 2] [--weights bfloat16] [--folder DIR] [--json]
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from engine.model.context import PREFILL_ROWS, Context
from engine.model.device import choose_device
from engine.protocol.options import LoadOptions
from engine.weights.streaming.layer_stream import LayerStream
from tests.bench.folders import made_folder
from tests.bench.inflate import inflate
from tests.bench.plan_accuracy import loaded_target

REST_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Reading:
    """One prompt. `processor_seconds` of all threads: what other work on the machine changes least."""

    seconds: float
    processor_seconds: float
    waited_seconds: float
    nbytes: int


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=0.5, help="bytes of the decoder layers")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--weights", default="bfloat16", help="as of the engine: bfloat16, float32, nf4, ...")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=made_folder, default=None, help="where the model is made (a real disk)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        model = inflate(Path(scratch) / "model", int(arguments.gigabytes * 1e9))
        options = LoadOptions(
            str(model), device=arguments.device, weights=arguments.weights, place="ssd", cache_dir=scratch
        )
        found = measure(options, arguments.tokens, arguments.turns)
    json.dump(found, sys.stdout, indent=None if arguments.json else 2)
    sys.stdout.write("\n")


def measure(options: LoadOptions, tokens: int, turns: int) -> dict[str, Any]:
    """Seconds and bytes of either way, which take turns; medians are told."""
    target = loaded_target(options, choose_device(options.device))
    assert target.stream, "every layer is on SSD"
    ways = {
        name: Context(target.network, tokens, one_pass=name == "one_pass") for name in ("one_pass", "chunk_by_chunk")
    }
    read: dict[str, list[Reading]] = {name: [] for name in ways}
    for turn in range(turns):
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            time.sleep(REST_SECONDS)  # until the ring is full, as before every prompt
            read[name].append(_read(ways[name], target.stream, tokens))
    target.close()
    return {
        "weights": options.weights,
        "device": str(target.network.device),
        "threads": torch.get_num_threads(),
        "tokens": tokens,
        "tokens_at_once": PREFILL_ROWS,
        **{
            name: {
                "seconds": statistics.median(row.seconds for row in rows),
                "every_seconds": [round(row.seconds, 2) for row in rows],
                "processor_seconds": statistics.median(row.processor_seconds for row in rows),
                "waited_seconds": statistics.median(row.waited_seconds for row in rows),
                "bytes_streamed": rows[0].nbytes,
            }
            for name, rows in read.items()
        },
    }


def _read(context: Context, stream: LayerStream, tokens: int) -> Reading:
    """A prompt of so many tokens; leaves the context empty."""
    nbytes, waited = stream.bytes_streamed, stream.waited_seconds
    processor, begin = time.process_time(), time.perf_counter()
    context.prefill([100 + number % 1000 for number in range(tokens)])
    seconds, processor = time.perf_counter() - begin, time.process_time() - processor
    context.rewind(0)
    return Reading(seconds, processor, stream.waited_seconds - waited, stream.bytes_streamed - nbytes)


if __name__ == "__main__":
    main()
