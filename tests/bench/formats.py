"""How fast every packed format is decoded, against how fast its bytes come from RAM and from disk.

python -m tests.bench.formats [--rows 2048] [--columns 2048] [--turns 50] [--dtype bfloat16] [--device cpu]
    [--folder DIR] [--json]

On a GPU a copy is one from pinned RAM to it, and a weight is decoded there.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import ModelError
from engine.gguf_header import TYPES
from engine.model.formats.packed import PackedWeight
from engine.model.formats.table import find_packed
from engine.model.gguf.packed_blocks import Gguf
from engine.model.products import product
from engine.model.safetensors_header import TensorInfo, read_header
from engine.number_types import computed_types
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import layout_of_shards
from engine.weights.streaming.binding import stored_views
from engine.weights.streaming.host_memory import HostArena
from engine.weights.streaming.pinning import pinning_for
from tests.bench.folders import made_folder
from tests.engine.model.formats import packers

PRODUCT_ROWS = (1, 16)
CPU = torch.device("cpu")
NAME = "model.layers.0.mlp.up_proj.weight"


@dataclass(frozen=True, slots=True)
class Sample:
    """A weight as a checkpoint of this packing stores it; what is in it does not matter for the time it takes."""

    title: str
    packing: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


def _fp8(rows: int, columns: int) -> Iterator[Sample]:
    codes = torch.randn(rows, columns).to(torch.float8_e4m3fn)
    grid = torch.rand(-(-rows // 128), -(-columns // 128))
    blocks = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    yield Sample("FP8, blocks of 128 x 128", blocks, {NAME: codes, f"{NAME}_scale_inv": grid})
    alone = {"quant_method": "fp8", "weight_block_size": None}
    yield Sample("FP8, one scale", alone, {NAME: codes, f"{NAME}_scale_inv": torch.rand(1)})
    yield Sample("FP8, a scale a row", alone, {NAME: codes, f"{NAME}_scale": torch.rand(rows, 1)})


def _mxfp4(rows: int, columns: int) -> Iterator[Sample]:
    stack = "model.layers.0.mlp.experts.gate_up_proj"
    shape = (4, rows // 4, columns // 32 + 1)  # no power of two, like gpt-oss's 90 blocks: a turned copy minds
    tensors = {
        f"{stack}_blocks": torch.randint(0, 256, (*shape, 16), dtype=torch.uint8),
        f"{stack}_scales": torch.randint(118, 124, shape, dtype=torch.uint8),
    }
    yield Sample("MXFP4, turned", {"quant_method": "mxfp4"}, tensors)


def _linear(title: str, packing: Mapping[str, Any], packer: packers.Packer) -> Callable[[int, int], Iterator[Sample]]:
    """A matrix that is packed as the tests of the format pack it."""

    def make(rows: int, columns: int) -> Iterator[Sample]:
        made = packer(torch.randn(rows, columns))
        stem = NAME.removesuffix(".weight")
        yield Sample(title, packing, {f"{stem}.{part}": tensor.contiguous() for part, tensor in made.tensors.items()})

    return make


def _compressed_tensors(rows: int, columns: int) -> Iterator[Sample]:
    weights: dict[str, Any] = {"num_bits": 4, "group_size": 128, "strategy": "group", "symmetric": True}
    form = "pack-quantized"
    packing = {
        "quant_method": "compressed-tensors",
        "format": form,
        "config_groups": {"group_0": {"targets": ["Linear"], "format": form, "weights": weights}},
    }
    stem = NAME.removesuffix(".weight")
    tensors = {
        f"{stem}.weight_packed": torch.randint(-(1 << 31), 1 << 31, (rows, columns // 8)).to(torch.int32),
        f"{stem}.weight_scale": torch.rand(rows, columns // 128),
        f"{stem}.weight_shape": torch.tensor([rows, columns]),
    }
    yield Sample("compressed-tensors, 4 bits in groups of 128", packing, tensors)


_AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
_GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}

_AUTO_ROUND = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "packing_format": "auto_round:auto_gptq"}


def _awq(rows: int, columns: int) -> Iterator[Sample]:
    yield from _linear("AWQ, groups of 128", _AWQ, packers.awq(128))(rows, columns)
    yield from _linear("AWQ for GEMV, groups of 128", {**_AWQ, "version": "gemv"}, packers.awq_gemv(128))(rows, columns)


SAMPLES: dict[str, Callable[[int, int], Iterator[Sample]]] = {
    "auto-round": _linear("AutoRound, groups of 128", _AUTO_ROUND, packers.gptq(4, 128, order="missing")),
    "awq": _awq,
    "bitsandbytes": _linear(
        "bitsandbytes NF4", {"quant_method": "bitsandbytes", "load_in_4bit": True}, packers.bitsandbytes_4bit()
    ),
    "compressed-tensors": _compressed_tensors,
    "fp8": _fp8,
    "gptq": _linear("GPTQ, groups of 128", _GPTQ, packers.gptq(4, 128)),
    "modelopt": _linear("NVFP4", {"quant_method": "modelopt", "quant_algo": "NVFP4"}, packers.float4("modelopt")),
    "mxfp4": _mxfp4,
}
"""By `quant_method`, as in `FINDERS`: every format has at least one."""


def main() -> None:
    """Measure, and print a table or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--columns", type=int, default=2048)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--dtype", default="bfloat16", choices=computed_types())
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--folder", type=made_folder, default=None, help="where samples are written (a real disk)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        found = measure_all(
            Path(folder), (arguments.rows, arguments.columns), arguments.turns, arguments.dtype, arguments.device
        )
    if arguments.json:
        json.dump(found, sys.stdout)
        sys.stdout.write("\n")
        return
    print(
        "| format | bits a weight | decoded, GB/s | weights, 1e9/s | by torch alone | decoding / copying in RAM "
        "| decoding / disk | product of 1 row, weights, 1e9/s | of 16 rows |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for row in found:
        rates = f"{row['decode_gb_per_second']:.2f} | {row['weights_per_second'] / 1e9:.2f}"
        rates += f" | {row['weights_per_second_by_torch'] / 1e9:.2f}"
        times = f"{row['decode_over_copy']:.1f} | {row['decode_over_disk']:.2f}"
        products = " | ".join(f"{rate / 1e9:.2f}" if rate else "" for rate in row["product_weights_per_second"])
        print(f"| {row['format']} | {row['bits']:.2f} | {rates} | {times} | {products} |")


def samples_here(rows: int, columns: int) -> list[Sample]:
    """A matrix of this shape in every format, but for those whose samples a package makes that is not there."""
    samples: list[Sample] = []
    for make in SAMPLES.values():
        with suppress(pytest.skip.Exception):  # no `Exception`: it would end the program
            samples += make(rows, columns)
    return samples


def measure_all(
    folder: Path,
    shape: tuple[int, int],
    turns: int,
    dtype_name: str = "bfloat16",
    device_name: str = "cpu",
    seconds: float = math.inf,
) -> list[dict[str, Any]]:
    """A row for a matrix of this shape in every format, GGUF's types of blocks first; those begun within `seconds`.

    Reading, copying and decoding take turns, and of each the fastest counts. What computes is measured by the
    processor's time, of which other programs take no part; threads should be one.
    """
    dtype, device, end = computed_types()[dtype_name], torch.device(device_name), time.monotonic() + seconds
    samples = samples_here(*shape)
    packed = zip((each.title for each in samples), packed_weights(folder, samples), strict=True)
    found = []
    for title, weight in chain(((f"GGUF {each.format.name}", each) for each in gguf_weights(folder, *shape)), packed):
        if time.monotonic() > end:
            break
        with suppress(ModelError):  # of tables that an older transformers lacks
            found.append({"format": title, **_row(weight, dtype, turns, device)})
    return found


def packed_weights(folder: Path, samples: Sequence[Sample]) -> Iterator[PackedWeight]:
    """The samples, written to files there."""
    for number, sample in enumerate(samples):
        file = folder / f"{number}.safetensors"
        save_file(dict(sample.tensors), file)
        yield from find_packed("sample", {"quantization_config": dict(sample.packing)}, read_header(file)).values()


def gguf_weights(folder: Path, rows: int, columns: int) -> Iterator[PackedWeight]:
    """A matrix in every type of block."""
    for kind in TYPES:
        if not kind.plain:
            shape = rows, columns // kind.elements * kind.nbytes
            file = folder / kind.name
            file.write_bytes(torch.randint(0, 256, shape, dtype=torch.uint8).numpy().tobytes())
            part = TensorInfo("U8", shape, file, 0, shape[0] * shape[1])
            yield PackedWeight(NAME, (rows, columns), {"0": part}, Gguf((kind,)))


def _row(weight: PackedWeight, dtype: torch.dtype, turns: int, device: torch.device) -> dict[str, Any]:
    layout = layout_of_shards(0, weight.parts)
    assert layout is not None, "written by safetensors, so aligned"
    on_gpu = device.type == "cuda"
    reader, arena = DiskReader([layout]), HostArena(2 * layout.nbytes, pinning_for(device))
    buffer, copy = arena.take(layout.nbytes), arena.take(layout.nbytes)
    if on_gpu:
        copy = torch.empty_like(copy, device=device)
    out = torch.zeros(weight.shape, dtype=dtype, device=device)
    parts = stored_views(layout, copy if on_gpu else buffer)

    def waited(run: Callable[[], object]) -> Callable[[], object]:
        def until_done() -> None:
            run()
            torch.cuda.synchronize(device)

        return until_done if on_gpu else run

    clock = time.perf_counter if on_gpu else time.process_time
    runs = (
        (time.perf_counter, lambda: reader.read(layout, buffer)),
        (clock, waited(lambda: copy.copy_(buffer))),
        (clock, waited(lambda: weight.format.decode(parts, out))),
        (clock, waited(lambda: _without_loops(lambda: weight.format.decode(parts, out)))),
    )
    weight.format.decode(parts, out)  # compiled now
    taken = [[_seconds(*run) for run in runs] for _ in range(turns)]
    read, copied, decode, by_torch = (min(seconds) for seconds in zip(*taken, strict=True))
    products = [None if on_gpu else _product_seconds(weight, parts, rows, turns) for rows in PRODUCT_ROWS]
    reader.close()
    arena.close()
    return {
        "bits": 8 * weight.nbytes / weight.elements,
        "decode_gb_per_second": weight.nbytes / decode / 1e9,
        "weights_per_second": weight.elements / decode,
        "weights_per_second_by_torch": weight.elements / by_torch,
        "product_weights_per_second": [seconds and weight.elements / seconds for seconds in products],
        "decode_over_copy": decode / copied,
        "decode_over_disk": decode / read,
    }


def _without_loops(run: Callable[[], object]) -> None:
    """Run it as where numba is missing."""
    with patch.object(product, "has_compiler", lambda: False):
        run()


def _product_seconds(weight: PackedWeight, parts: Mapping[str, Tensor], rows: int, turns: int) -> float | None:
    """What a product of so many rows with the weight as it is stored takes; None where it has to be decoded."""
    multiply = weight.format.product(parts, (weight.shape[0], weight.shape[1])) if len(weight.shape) == 2 else None
    if multiply is None:
        return None
    x = torch.randn(rows, weight.shape[1])
    multiply(x)
    return min(_seconds(time.process_time, lambda: multiply(x)) for _ in range(turns))


def _seconds(clock: Callable[[], float], run: Callable[[], object]) -> float:
    begin = clock()
    run()
    return clock() - begin


if __name__ == "__main__":
    main()
