"""How fast weights are multiplied as they are stored: bytes a second of one row, operations a second of several.

python -m tests.bench.products [--rows 4096] [--columns 2048] [--formats BF16,Q8_0] [--numbers 1,4,9,17,33,64]
    [--turns 30] [--threads 2] [--dtype float32] [--whole-numbers] [--rounded] [--attention]

The same product by torch, of a weight in the rows' type, takes turns with each. Rows of bfloat16 are multiplied as
tiles or in pairs, where the processor can. Matrices are read anew, one after another: together they are larger than
the caches. Of each the fastest run counts, since others compute on a machine too.

With --whole-numbers up to four rows are multiplied in whole numbers and by the loops otherwise used, of float32 or of
pairs, matrix by matrix in turns: the median of the first, and the median ratio of two that follow each other, which
holds where seconds do not.

With --rounded rows are multiplied in 8 bits and exactly, matrix by matrix in turns, likewise: exactly by the loops, and
more than 64 rows in blocks by torch.

With --attention several rows attend in pairs and by torch's kernel in turns, over keys and values in bfloat16.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product as product_of

import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention

from engine.gguf_header import TYPES
from engine.loading.measurements.measuring import attend_in_steps
from engine.model.products import product
from engine.model.products.bfloat_loops import bfloat_loop, loop_for
from engine.model.products.layouts import BLOCKS
from engine.model.products.product import Product, Stored, native
from engine.weights.codecs.codec import codec_named
from tests.engine.model.gguf.test_block_decoders import blocks
from tests.engine.weights.codec_cases import WEIGHT, random_weight

BEYOND_CACHES = 100_000_000  # bytes that are read before one is read again
MOST_BY_LOOPS = 64  # rows of float32
SOME_ROWS = 256  # that differ: the others repeat them
ONE = 127  # the exponent of 1
KINDS = {kind.name: kind for kind in TYPES}
CODECS = {"BF16": ("plain", torch.bfloat16), "F16": ("plain", torch.float16), "int8": ("int8", torch.float32)}
CODECS["NF4"] = ("nf4", torch.float32)
HEADS = (32, 8, 128), (32, 32, 64)  # how many, over how many of keys, and their width
FORMATS = (*CODECS, *(kind.name for kind in TYPES if kind.name in BLOCKS))


@dataclass(frozen=True, slots=True)
class Copies:
    """The same matrix several times in memory, and how many bytes each takes."""

    products: Sequence[Product]
    nbytes: int


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--columns", type=int, default=2048)
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--numbers", default="1,4,9,17,33,64")
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of what is multiplied")
    parser.add_argument("--whole-numbers", action="store_true")
    parser.add_argument("--rounded", action="store_true")
    parser.add_argument("--attention", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    numbers, dtype = [int(number) for number in arguments.numbers.split(",")], getattr(torch, arguments.dtype)
    if dtype == torch.bfloat16 and bfloat_loop() is None:
        parser.error("this processor multiplies no bfloat16: rows of it are multiplied in float32")
    shape = arguments.rows, arguments.columns
    if arguments.attention:
        compare_attention(arguments.turns)
        return
    if arguments.rounded:
        compare_rounded(arguments.formats.split(","), shape, numbers, arguments.turns)
        return
    if arguments.whole_numbers:
        compare_loops(arguments.formats.split(","), shape, numbers, arguments.turns, dtype)
        return
    print(f"| format | GB/s of 1 row | {' | '.join(f'GFLOP/s of {number}' for number in numbers)} |")
    print(f"|---|{'--:|' * (len(numbers) + 1)}")
    by_torch: list[list[float]] = []
    for name in arguments.formats.split(","):
        copies = _copies(name, shape)
        found = [_seconds(copies, shape, number, arguments.turns, dtype) for number in numbers]
        by_torch.append([alone for _, alone in found])
        rate = copies.nbytes / found[0][0] / 1e9 if numbers[0] == 1 else float("nan")
        print(_line(name, rate, shape, numbers, [seconds for seconds, _ in found]), flush=True)
    fastest = [min(each) for each in zip(*by_torch, strict=True)]
    rate = dtype.itemsize * shape[0] * shape[1] / fastest[0] / 1e9 if numbers[0] == 1 else float("nan")
    print(_line(f"{arguments.dtype} by torch", rate, shape, numbers, fastest))


def compare_loops(
    names: Sequence[str], shape: tuple[int, int], numbers: Sequence[int], turns: int, dtype: torch.dtype
) -> None:
    """Print a table of both ways for few rows, of the formats that have both."""
    whole = native().whole_numbers
    order_of, few = whole.order_of, [number for number in numbers if whole.takes(number, shape[1])]
    titles = "".join(f" | {number} of whole numbers, GB/s | ratio" for number in few)
    print(f"| format{titles} |\n|---|{'--:|' * (2 * len(few))}")
    for name in names:
        ways = []
        for chosen in (order_of, lambda _parts: None):
            whole.order_of = chosen
            native()._loops.clear()
            ways.append(_copies(name, shape))
            for multiply, number in product_of(ways[-1].products, few):
                multiply(_read_by(chosen is order_of, torch.randn(number, shape[1]).to(dtype)))  # and keeps its loop
        whole.order_of = order_of
        found = [_rate_and_ratio(ways, torch.randn(number, shape[1]).to(dtype), turns) for number in few]
        print(f"| {name} | {' | '.join(f'{rate:.1f} | {ratio:.2f}' for rate, ratio in found)} |", flush=True)


def compare_rounded(names: Sequence[str], shape: tuple[int, int], numbers: Sequence[int], turns: int) -> None:
    """Print a table of rows in 8 bits: operations a second, and how many times as fast they are as exact ones."""
    titles = "".join(f" | {number} in 8 bits, GFLOP/s | ratio" for number in numbers)
    print(f"| format{titles} |\n|---|{'--:|' * (2 * len(numbers))}")
    for name in names:
        exact = _copies(name, shape)
        pairs, cells = [(each.rounding(), each) for each in exact.products if isinstance(each, Stored)], []
        for number in numbers:
            x, seconds = torch.randn(number, shape[1]), list[list[float]]()
            for _ in range(turns):
                for pair in pairs:
                    seconds.append([_timed(lambda: _multiplied(each, x)) for each in pair])  # noqa: B023
            rate = 2 * number * shape[0] * shape[1] / statistics.median(mine for mine, _ in seconds) / 1e9
            cells.append(f"{rate:.0f} | {statistics.median(other / mine for mine, other in seconds):.2f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _multiplied(product: Product, x: Tensor) -> Tensor:
    found = product.wide(x) if len(x) > MOST_BY_LOOPS else None
    return product(x) if found is None else found


def _read_by(whole: bool, x: Tensor) -> Tensor:
    """x as loops for whole numbers or other ones read it: those for bfloat16 read several rows."""
    return x if whole or loop_for(x) else x.float()


def _rate_and_ratio(ways: Sequence[Copies], x: Tensor, turns: int) -> tuple[float, float]:
    """Bytes of the matrix a second in the first way, and how many times as fast it is; matrix by matrix in turns."""
    seconds: list[list[float]] = []
    for _ in range(turns):
        for pair in zip(*(copies.products for copies in ways), strict=True):
            both = zip(pair, (x, _read_by(False, x)), strict=True)
            seconds.append([_timed(lambda: multiply(few)) for multiply, few in both])  # noqa: B023
    rate = ways[0].nbytes / statistics.median(mine for mine, _ in seconds) / 1e9
    return rate, statistics.median(other / mine for mine, other in seconds)


def compare_attention(turns: int) -> None:
    """Print a table of the fastest runs of both, with heads that share keys, and with heads that have their own."""
    print("| heads | rows | slots | ms in pairs | ms by torch |\n|---|--:|--:|--:|--:|")
    for (heads, shared, width), rows, slots in product_of(HEADS, (17, 33, 65), (1024, 4096)):
        query, keys = torch.randn(heads, rows, width), torch.randn(shared, slots, width).bfloat16()
        narrow, mask = query.bfloat16()[None], torch.ones(1, 1, rows, slots, dtype=torch.bool)
        narrow, mask = narrow.view(1, shared, -1, width), mask.repeat(1, 1, heads // shared, 1)
        ways = (
            lambda: attend_in_steps(query, keys),  # noqa: B023
            lambda: scaled_dot_product_attention(narrow, keys[None], keys[None], attn_mask=mask),  # noqa: B023
        )
        found = [min(each) * 1e3 for each in zip(*([_timed(way) for way in ways] for _ in range(turns)), strict=True)]
        print(f"| {heads} of {width} over {shared} | {rows} | {slots} | {found[0]:.2f} | {found[1]:.2f} |", flush=True)


def _line(name: str, rate: float, shape: tuple[int, int], numbers: Sequence[int], seconds: Sequence[float]) -> str:
    operations = (2 * shape[0] * shape[1] * number for number in numbers)
    rates = (f"{each / taken / 1e9:.0f}" for each, taken in zip(operations, seconds, strict=True))
    return f"| {name} | {rate:.1f} | {' | '.join(rates)} |"


def _copies(name: str, shape: tuple[int, int]) -> Copies:
    rows = min(SOME_ROWS, shape[0])
    if name in CODECS:
        codec_name, dtype = CODECS[name]
        codec = codec_named(codec_name)
        stored = codec.encode(WEIGHT, random_weight(*shape).to(dtype))
        return _several(lambda parts: codec.product(parts, WEIGHT, shape), dict(stored))
    some = blocks(KINDS[name], rows, shape[1])
    if name == "MXFP4":
        some.view(rows, -1, KINDS[name].nbytes)[..., 0] = ONE  # numbers below the normal ones would be slow
    found = some.repeat(-(-shape[0] // rows), 1)[: shape[0]]
    return _several(lambda parts: product.blocks(name, parts["0"], shape[1]), {"0": found})


def _several(make: Callable[[dict[str, Tensor]], Product | None], parts: dict[str, Tensor]) -> Copies:
    nbytes = sum(part.nbytes for part in parts.values())
    made = [make({key: part.clone() for key, part in parts.items()}) for _ in range(-(-BEYOND_CACHES // nbytes))]
    return Copies([each for each in made if each is not None], nbytes)


def _seconds(
    copies: Copies, shape: tuple[int, int], number: int, turns: int, dtype: torch.dtype
) -> tuple[float, float]:
    """Seconds of a product of so many rows in this type, and of torch's."""
    x, weight = torch.randn(number, shape[1]).to(dtype), torch.randn(shape).to(dtype)
    few = x if dtype == torch.float32 or loop_for(x) else x.float()
    copies.products[0](few)
    taken: list[float] = []
    by_torch: list[float] = []
    for _ in range(turns):
        taken += [_timed(lambda: multiply(few)) for multiply in copies.products]  # noqa: B023
        by_torch.append(_timed(lambda: linear(x, weight)))
    return min(taken), min(by_torch)


def _timed(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
