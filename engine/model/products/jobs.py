"""What is compiled by itself, as lines of text that other processes can be handed: see `carry_out`.

A job that was done leaves a mark in the folder of compiled code. Without torch, as `native` is.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from engine.model.decoding.tables import NUMBERS
from engine.model.products import layouts
from engine.model.products.bfloat_loops import PAIRS, TILES, BfloatLoop, bfloat_loop
from engine.model.products.compiling import kept_folder

MARKS = "jobs"  # a folder within that of compiled code
TOGETHER = " + "  # between pieces of a job that share much of what they call
SECONDS = {
    "attention in pairs": 5.5, "digits": 3.0, "going": 2.6, "paired": 2.4, "tiled": 2.4, "shorts": 2.1, "whole": 2.1,
    "group": 1.6, "several": 1.6, "attention": 1.1, "narrow attention": 1.1,
    "bytes": 2.0,
}  # fmt: skip
"""About how long the longest jobs take: these are begun first."""
OTHER_SECONDS = 0.5
DECODED_BY_TORCH = (layouts.Floats, layouts.Bfloats, layouts.Halves)


def _array(kind: Any, dimensions: int) -> layouts.Array:
    return np.zeros((1,) * dimensions, kind)


_FLOATS = layouts.Floats(_array(np.float32, 2))


def of_layout(parts: Any, is_narrow: bool, is_rounded: bool = False, keeps_few: bool = False) -> list[str]:
    """What matrices of such a layout need, whose network computes in bfloat16 (`is_narrow`) or in float32.

    `is_rounded`: rows are multiplied in 8 bits where there are loops for that; `keeps_few`: see `Stored`.
    """
    from engine.model.products import native  # noqa: PLC0415  # numba
    from engine.model.products.loops import rounded, whole_numbers  # noqa: PLC0415

    loop, layout = bfloat_loop(), layout_text(parts)
    is_whole, together = whole_numbers.order_of(parts) is not None, whole_numbers.most_rows() > 1
    takes_bfloats = is_narrow and loop is not None and native.reads_packed(parts)
    kinds = ["alone", loop.kind if takes_bfloats and loop else "several"]
    if is_rounded and rounded.takes(parts):
        few = ["alone", *(["whole"] if together else [])] if keeps_few and is_whole else []
        kinds = ["bytes", *few]
    elif is_whole and is_narrow:
        kinds += ["short", "shorts"] if together else ["short"]
    elif is_whole and together:
        kinds.append("whole")
    if not isinstance(parts, DECODED_BY_TORCH):
        kinds.append("decode_bfloats" if is_narrow else "decode")
    return [f"{kind} {layout}" for kind in (*kinds, "decode_from")]


def of_networks(is_narrow: bool, is_mixture: bool) -> list[str]:
    """What layers need whatever their weights are stored in."""
    loop = bfloat_loop() if is_narrow else None
    found = [
        *_of_rows(loop),
        "finding the likeliest + likeliest",
        "gate",
        "narrow attention" if is_narrow else "attention",
    ]
    if loop is PAIRS:
        found.append("attention in pairs")
    if is_mixture:
        found += ["group", "tell + route + route scored", "gate pairs + mix rows", "mixing"]
        found += [f"{kind} {layout_text(_FLOATS)}" for kind in ("alone", "several")]
    return found


def _of_rows(loop: BfloatLoop | None) -> list[str]:
    """What rows need that are multiplied, several of them by the loop for bfloat16 if there is one."""
    found = ["going on", "digits + digits of a row", "sharing + norms", "pack"]
    if loop is PAIRS:
        found.append("rows in pairs + pairs")
    return [*found, "rows in tiles"] if loop is TILES else found


def of_rounding() -> list[str]:
    """What rows need that are multiplied in 8 bits."""
    return ["bytes + bytes of a row"]


def of_measuring(is_narrow: bool) -> list[str]:
    """What it takes to measure how fast this machine is with weights of 16 bits: see `loading.measurements`."""
    bfloats, loop = layouts.Bfloats(_array(np.uint16, 2)), bfloat_loop() if is_narrow else None
    found = [*of_layout(bfloats, False), *of_layout(bfloats, is_narrow)]
    return [*found, *_of_rows(loop), f"alone {layout_text(_FLOATS)}"]


def of_small_drafts() -> list[str]:
    """What a draft needs whose weights are float32, beside a target whose loops are compiled."""
    return [*of_layout(_FLOATS, False), *of_networks(False, is_mixture=False)]


def layout_text(parts: Any) -> str:
    """A layout by its name and the kinds of its fields."""
    return " ".join([type(parts).__name__, *map(_field_text, parts)])


def _field_text(field: Any) -> str:
    if not isinstance(field, np.ndarray):
        return "number" if isinstance(field, np.float32) else "count"
    table = next((kind for kind in NUMBERS if field is layouts.levels(kind)), None)
    return f"{field.dtype}:{field.ndim}" if table is None else f"levels:{table.replace(' ', '_')}"


def layout_of(text: str) -> Any:
    """A layout of that kind, with arrays of one number: the other way round."""
    name, *fields = text.split(" ")
    return getattr(layouts, name)(*map(_field_of, fields))


def _field_of(text: str) -> Any:
    kind, _, more = text.partition(":")
    if kind == "levels":
        return layouts.levels(more.replace("_", " "))
    if not more:
        return np.float32(0) if kind == "number" else 0
    return _array(kind, int(more))


def seconds_of(job: str) -> float:
    """About how long it takes."""
    return SECONDS.get(job, SECONDS.get(job.partition(" ")[0], OTHER_SECONDS))


def in_order(jobs: Iterable[str]) -> list[str]:
    """The longest first, each once."""
    return sorted(dict.fromkeys(jobs), key=seconds_of, reverse=True)


def missing(jobs: Iterable[str]) -> list[str]:
    """Those without a mark; none where nothing is kept."""
    folder = kept_folder()
    return [] if folder is None else [job for job in jobs if not _mark(folder, job).exists()]


def mark_done(job: str) -> None:
    """Leave a mark. Raises `OSError`."""
    if folder := kept_folder():
        (folder / MARKS).mkdir(exist_ok=True)
        _mark(folder, job).touch()


def _mark(folder: Path, job: str) -> Path:
    return folder / MARKS / hashlib.sha256(f"{_machine()} {job}".encode()).hexdigest()[:24]


@lru_cache(maxsize=1)
def _machine() -> str:
    """What else compiled code belongs to."""
    import numba  # noqa: PLC0415
    from numba.core.registry import cpu_target  # noqa: PLC0415

    return f"{numba.__version__} {sys.version_info[:2]} {cpu_target.target_context.codegen().magic_tuple()}"


def carry_out(job: str) -> None:
    """Compile it into the folder for compiled code; what is there already is only read."""
    from engine.model.products import native  # noqa: PLC0415  # numba
    from engine.model.products.loops import works  # noqa: PLC0415

    for piece in job.split(TOGETHER):
        if piece in CALLED:
            for function, *arguments in CALLED[piece](native):
                _compile(function, *arguments)
        elif piece in works.WORKS:
            works.loop_for(piece)
        else:
            kind, _, layout = piece.partition(" ")
            _carry_out_of_layout(native, kind, layout_of(layout))


def _carry_out_of_layout(native: Any, kind: str, parts: Any) -> None:
    if not kind.startswith("decode"):
        native.loop_of(parts, kind)
        return
    kernels = native.kernels if native.reads_packed(parts) else native.output_kernels
    if hasattr(kernels, kind):
        _compile(getattr(kernels, kind), parts, _array(np.uint16 if kind == "decode_bfloats" else np.float32, 2), 0, 0)


def _compile(function: Any, *arguments: Any) -> None:
    """As a call with such arguments would."""
    import numba  # noqa: PLC0415

    function.compile(tuple(map(numba.typeof, arguments)))


Calls = list[tuple[Any, ...]]
"""Compiled functions, each with arguments such as it is called with."""


def _going_on(native: Any) -> Calls:
    return [(native.go_on, 0, 0, 0, 0, 0, True), (native.lead, 0, 0, 0, 0), (native.do_all, 0, 0)]


def _sharing(native: Any) -> Calls:
    lines, numbers = _array(np.int64, 2), _array(np.int64, 1)
    return [
        (native.wait, 0),
        (native.help_out, 0, 0),
        (native.is_over, 0),
        (native.write_all, numbers, numbers),
        (native.shares.costs, lines),
        (native.shares.lay_out, lines, 0, 0, lines),
        (native.whole_numbers.bytes_of_a_row, 0),
        (native.works.attending_pairs.tiles_of, 0),
    ]


def _norms(native: Any) -> Calls:
    between, told = native.between, (0, 0, 0, 0, 0, 0.0, 0.0)
    return [(between.norm_narrow_rows, *told), (between.norm_rows, *told)]


def _pairs(native: Any) -> Calls:
    shorts = np.uint16
    return [(native.pairs.pack, _array(shorts, 2), _array(np.int64, 2), _array(shorts, 1))]


def _tiles(native: Any) -> Calls:
    words = np.int32
    return [(native.tiles.fill_tiles, _array(words, 2), _array(np.int64, 2), _array(words, 3))]


def _mixing(native: Any) -> Calls:
    numbers = _array(np.float32, 2)
    return [(native.mix, numbers, _array(np.int64, 1), numbers, numbers), (native.gate_halves, numbers)]


CALLED: dict[str, Callable[[Any], Calls]] = {
    "going on": _going_on,
    "sharing": _sharing,
    "norms": _norms,
    "finding the likeliest": lambda native: [(native.works.likeliest.find, 0, 0, 0)],
    "rows in pairs": _pairs,
    "rows in tiles": _tiles,
    "mixing": _mixing,
}
"""What Python calls itself, besides what decodes layouts."""
