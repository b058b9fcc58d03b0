"""A weight that is multiplied as it is stored: few rows with a matrix, on the threads that torch may use.

Nothing is copied: products are views of stored bytes, cheap to make, and valid as long as these lie where they are.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from engine.model.products import arrays, layouts
from engine.model.products.bfloat_loops import BfloatLoop, bfloat_loop
from engine.model.products.compiling import has_compiler
from engine.model.products.crew import CREW, Share
from engine.model.products.layouts import TOGETHER, UNIT
from engine.model.products.team import team
from engine.own_thread import computes_alone, in_all_threads, in_own_thread, threads_allowed

SMALLEST = 1 << 15  # weights of a matrix that is multiplied as it is stored: fewer are decoded sooner
SMALLEST_DECODED = 1 << 17  # of one that is decoded by a loop: fewer are by torch
LINE = 64  # bytes of a line of the cache, where rows of x begin that loops read
ROOM = 1 << 17  # bytes for several of these
KINDS = ("", "whole"), ("short", "shorts")  # of loops for whole numbers: of one row or more, of float32 or bfloat16
OF_BYTES = "bytes"  # of the loop for rows that are rounded to 8 bits
MOST_ROUNDED_ROWS = 64  # of these at a time, about
MOST_ROWS = 32  # of x at a time, about: the more, the less often the matrix is decoded; as measured, more gain nothing
WORTH_A_THREAD = 1 << 19  # weights times rows that a thread takes longer for than to be woken
WORTH_A_SHARE = 1 << 16  # the same where threads are awake
BLOCK_NUMBERS, BLOCK_ROWS = 1 << 20, 64  # decoded before they are multiplied: they stay in a cache; a multiple of these
SHARES = 4  # of a matrix for each thread: one that is held up elsewhere does not hold up all
SHARES_OF_A_BATCH = 16  # of products for each thread: handed out by compiled code, they cost nothing
WRITTEN = frozenset({torch.float32, torch.bfloat16})


class Product(Protocol):
    """Multiplies rows with a weight [weight rows, columns], which it does not own."""

    def __call__(self, x: Tensor) -> Tensor:
        """x times the turned weight: float32 [rows, columns], contiguous, to float32 [rows, weight rows], on the CPU.

        Where there is a `loop_for` it, x may be bfloat16: then the weight is rounded to that as well, the sums are not.
        A row's bits depend on it, the weight, whether it is alone, and which of both types x has: not on threads, nor
        on which rows are beside it.
        """

    def begin(self, x: Tensor, batch: "Batch") -> Callable[[], Tensor]:
        """The same as part of a batch: what gives the product once the batch has run."""

    def wide(self, x: Tensor) -> Tensor | None:
        """The same for many rows, by torch's products in x's own type, to [rows, weight rows] in that type.

        The weight is multiplied where it lies, if it is stored in that type, or decoded block by block; None where
        it has to be decoded as a whole. A row's bits may depend on how many rows there are, but not on threads.
        """


class Batch:
    """Products and decodings that are shared out together, so that threads are woken once for all of them."""

    def __init__(self) -> None:
        self._work: list[tuple[Work, int, int]] = []  # with the rows of a matrix, and its columns
        # With the places of x and y, rows, y's width, and whether one row needs few digits.
        self._products: list[tuple[Stored, int, int, int, int, bool]] = []
        self._lines: list[tuple[int, ...]] = []  # of products of bfloat16
        self._arranged: list[tuple[Tensor, Tensor]] = []  # x, and as the loop reads it
        self._wide: list[tuple[Tensor, Tensor]] = []  # x, and in float32
        self._kept: list[Any] = []
        self._free, self._left = 0, 0  # of the newest room: where it goes on, and for how many bytes
        self._packed: dict[tuple[int, int, int], int] = {}  # where several will lie, by place, count and columns
        self._digits: dict[tuple[int, int, int, int, bool], int] = {}  # in whole numbers, by order and digits, too
        self._rounded: dict[tuple[int, int, int], int] = {}  # in 8 bits

    def arranged(self, x: Tensor, loop: BfloatLoop) -> int:
        """Where x lies as a loop for bfloat16 reads it; made once for all that are handed the same x."""
        if not self._arranged or self._arranged[-1][0] is not x:
            self._arranged.append((x, loop.arrange(x, ())))
        return self._arranged[-1][1].data_ptr()

    def multiply(self, matrix: "Stored", x: int, y: int, rows: int, width: int = 0, is_narrow: bool = False) -> None:
        """Write the product of x float32 [rows, columns] into y [rows, weight rows]; both are addresses.

        What lies there must stay until the batch has run. `width`: numbers from a row of y to the next one, if they
        are more than the weight has rows. `is_narrow`: x was bfloat16, and one row of it needs fewer digits.
        """
        width = width or matrix.rows
        # Alike: a last one of a row would cost as much as others.
        step = -(-rows // max(1, round(rows / (MOST_ROUNDED_ROWS if matrix.rounds(rows) else MOST_ROWS))))
        for at in range(0, rows, step):
            place = x + 4 * at * matrix.columns, y + 4 * at * width
            self._products.append((matrix, *place, min(step, rows - at), width, is_narrow))

    def wide(self, x: Tensor) -> Tensor:
        """x in float32; made once for all that are handed the same x."""
        if x.dtype == torch.float32:
            return x
        if not self._wide or self._wide[-1][0] is not x:
            self._wide.append((x, x.float()))
        return self._wide[-1][1]

    def keep(self, x: Tensor) -> Tensor:
        """The tensor itself, which stays until the batch has run: of others the addresses alone are noted."""
        self._kept.append(x)
        return x

    def multiply_bfloats(self, matrix: "Stored", x: int, y: int, rows: int, loop: BfloatLoop, width: int = 0) -> None:
        """The same with `rows` rows of x as a loop for bfloat16 reads them."""
        self._lines.append(matrix.line(x, y, rows, loop.kind, width))

    def add(self, work: "Work", rows: int, columns: int) -> None:
        """Do `work` for all rows of a matrix of so many columns."""
        self._work.append((work, rows, columns))

    def run(self) -> None:
        """Do it all, on several threads where it is enough for that."""
        if self._products or self._lines:
            self._multiply_all(threads_allowed())
        if self._work:
            self._run_work(threads_allowed())

    def _multiply_all(self, threads: int) -> None:
        products = list(self._lines)
        for matrix, x, y, rows, width, is_narrow in self._products:
            place, kind, order = x, "", matrix.order_of(rows)
            if matrix.rounds(rows):
                place, kind = self._place_of_rounded(x, rows, matrix.columns), OF_BYTES
            elif order is not None:
                place = self._place_of_digits(x, rows, matrix.columns, order, is_narrow)
                kind = KINDS[is_narrow][rows > 1]
            elif rows > 1 and matrix.reads_packed():
                place = self._place_of_packed(x, rows, matrix.columns)
            products.append(matrix.line(place, y, rows, kind, width))
        more_follow = computes_alone()
        if self._packed or self._digits or self._rounded:
            self._pack_all(threads)
        shares = shares_of(products, threads, more_follow)
        team().run(shares, min(threads, len(shares)), more_follow)

    def _place_of_packed(self, x: int, rows: int, columns: int) -> int:
        """Where several rows of x will lie as loops read them; packed once for all that are handed them."""
        key = x, rows, columns
        if key not in self._packed:
            self._packed[key] = self._room(4 * rows * columns)
        return self._packed[key]

    def _place_of_digits(self, x: int, rows: int, columns: int, order: int, is_short: bool) -> int:
        """The same of a few rows in whole numbers."""
        key = x, rows, columns, order, is_short
        if key not in self._digits:
            self._digits[key] = self._room(rows * native().whole_numbers.bytes_of_a_row(columns))
        return self._digits[key]

    def _place_of_rounded(self, x: int, rows: int, columns: int) -> int:
        """The same of rows in 8 bits."""
        key = x, rows, columns
        if key not in self._rounded:
            self._rounded[key] = self._room(rows * native().rounded.bytes_of_a_row(columns))
        return self._rounded[key]

    def _room(self, count: int) -> int:
        """The address of so many bytes, which begin at a line, as long as the batch is there."""
        count += -count % LINE
        if count > self._left:
            self._left = max(count, ROOM)
            room = np.empty(self._left + LINE, np.uint8)
            self._kept.append(room)
            self._free = int(room.__array_interface__["data"][0])
            self._free += -self._free % LINE
        place, self._free, self._left = self._free, self._free + count, self._left - count
        return place

    def _pack_all(self, threads: int) -> None:
        jobs = [(x, place, rows, columns) for (x, rows, columns), place in self._packed.items()]
        lines = [native().packings(jobs, WORTH_A_SHARE)] if jobs else []
        if self._digits:
            lines.append(native().digits([(key[0], place, *key[1:]) for key, place in self._digits.items()]))
        if self._rounded:
            lines.append(native().rounding([(key[0], place, *key[1:]) for key, place in self._rounded.items()]))
        count = sum(key[1] * key[2] for key in (*self._packed, *self._digits, *self._rounded))
        shares = np.concatenate(lines)
        is_much = count > WORTH_A_SHARE
        team().run(shares, min(threads, len(shares)) if is_much else 1, more_follow=True)  # the products do

    def _run_work(self, threads: int) -> None:
        whole = sum(rows * columns for _, rows, columns in self._work)
        count = max(1, min(SHARES * threads, whole // WORTH_A_THREAD)) if threads > 1 else 1
        shares: list[Share] = []
        for work, rows, columns in self._work:
            step = -(-whole // (count * columns * TOGETHER)) * TOGETHER
            shares += [partial(work, begin, min(begin + step, rows)) for begin in range(0, rows, step)]
        CREW.run(shares, min(threads, count))


def shares_of(products: Sequence[tuple[int, ...]], threads: int, more_follow: bool) -> layouts.Array:
    """The lines of `shares.table_of` for products as `Stored.line` has them, as many as are worth their threads."""
    numbers = np.array(products, np.int64)
    loop = native()
    whole = loop.shares.costs(numbers)
    worth = min(WORTH_A_THREAD, WORTH_A_SHARE) if more_follow else WORTH_A_THREAD
    count = max(1, min(SHARES_OF_A_BATCH * threads, whole // worth)) if threads > 1 else 1
    return loop.shares.table_of(numbers, whole, count, threads)  # type: ignore[no-any-return]


Work = Callable[[int, int], object]
"""Multiplies or decodes rows [begin, end) of a matrix."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A matrix [rows, columns] in one of the layouts.

    `is_rounded`: rows of float32, which are all that it is multiplied with then, are rounded to 8 bits: see
    `loops.rounded`. `keeps_few`: but for so few as are multiplied in whole numbers, which is as fast; what a row gives
    depends on the rows beside it then.
    """

    parts: Any
    rows: int
    columns: int
    is_rounded: bool = False
    keeps_few: bool = False
    _places: dict[str, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)
    _told: list[layouts.Array] = field(default_factory=list, compare=False, repr=False)
    _orders: list[int | None] = field(default_factory=list, compare=False, repr=False)

    @property
    def takes_bfloats(self) -> bool:
        """Whether rows of bfloat16 are multiplied with it by a loop for these, where there is one: see `Batch`."""
        return True

    def places(self, kind: str) -> tuple[int, int]:
        """The addresses of the loop for x of a kind, see `native.loop_of`, and of what it is told of the matrix."""
        if kind not in self._places:
            self._places[kind] = native().loop_of(self.parts, kind), self.told.ctypes.data
        return self._places[kind]

    @property
    def told(self) -> layouts.Array:
        """What loops are told of the matrix, see `native.told`; they read whatever is written there."""
        if not self._told:
            self._told.append(native().told(self.parts))
        return self._told[0]

    def line(self, x: int, y: int, rows: int, kind: str = "", width: int = 0) -> tuple[int, ...]:
        """The product of x with so many rows into y, both addresses, as `shares.table_of` reads it.

        `kind`: of x, if it is not one or several rows of float32. `width`: see `Batch.multiply`.
        """
        places = self.places(kind or ("several" if rows > 1 else "alone"))
        return *places, x, y, rows, self.columns, self.rows, width or self.rows

    @property
    def order(self) -> int | None:
        """In which order one row is written that is multiplied in whole numbers; None where it is not.

        See `loops.whole_numbers`.
        """
        if not self._orders:
            self._orders.append(native().whole_numbers.order_of(self.parts))
        return self._orders[0]

    def order_of(self, rows: int) -> int | None:
        """The same for so many rows; None where they are rounded."""
        if self.is_rounded and not self.keeps_few:
            return None
        return self.order if native().whole_numbers.takes(rows, self.columns) else None

    def rounds(self, rows: int) -> bool:
        """Whether so many rows are rounded to 8 bits."""
        return self.is_rounded and self.order_of(rows) is None

    @property
    def alone(self) -> str:
        """The kind of x, as `native.loop_of` has it, of one row that is multiplied with it in float32."""
        return OF_BYTES if self.rounds(1) else "alone"

    def rounding(self, keeps_few: bool = False) -> "Stored":
        """The same matrix with rows rounded to 8 bits where there is a loop for that; else itself."""
        is_able = type(self) is Stored and native().rounded.takes(self.parts)
        return replace(self, is_rounded=True, keeps_few=keeps_few, _places={}) if is_able else self

    def reads_packed(self) -> bool:
        """Whether several rows are multiplied as `loops.kernels.pack` writes them."""
        return bool(native().reads_packed(self.parts))

    def __call__(self, x: Tensor) -> Tensor:
        """See `Product`."""
        return times_all([self], x)[0]

    def begin(self, x: Tensor, batch: Batch) -> Callable[[], Tensor]:
        """See `Product`."""
        rows = x.shape[0]  # `len` is a call of torch's own in Python
        y = torch.empty(rows, self.rows, dtype=torch.float32)
        is_narrow = x.dtype != torch.float32
        if not is_narrow or self.order_of(rows) is not None:
            x = batch.wide(x)
            assert x.is_contiguous(), "loops read one number behind the other"
            batch.multiply(self, x.data_ptr(), y.data_ptr(), rows, is_narrow=is_narrow)
        else:
            loop = bfloat_loop()
            assert loop is not None, "no loop reads such numbers here"
            batch.multiply_bfloats(self, batch.arranged(x, loop), y.data_ptr(), rows, loop)
        return lambda: y

    def wide(self, x: Tensor) -> Tensor | None:
        """See `Product`."""
        if isinstance(self.parts, layouts.Floats):  # nothing has to be decoded
            return None
        if self.is_rounded:
            return self(x.contiguous())
        if isinstance(self.parts, layouts.Bfloats) and x.dtype == torch.bfloat16:
            with in_all_threads():
                return functional.linear(x, torch.from_numpy(self.parts.numbers).view(x.dtype))
        if x.dtype != torch.float32:  # as measured, torch's products in bfloat16 gain nothing by blocks
            return None
        y = x.new_empty(self.rows, len(x))
        rows = max(1, min(BLOCK_NUMBERS // self.columns, -(-self.rows // SHARES)))
        step = -(-rows // BLOCK_ROWS) * BLOCK_ROWS  # the same for any number of threads: bits depend on it
        multiply = partial(_multiply_block, self, x.t(), y)
        shares = [partial(multiply, begin, min(begin + step, self.rows)) for begin in range(0, self.rows, step)]
        with in_own_thread():
            CREW.run(shares, min(threads_allowed(), len(shares)))
        return y.t()

    def some_rows(self, numbers: Sequence[int]) -> Tensor:
        """Rows of the matrix, decoded: float32 [numbers, columns]. Raises `IndexError` where there is no such row."""
        if numbers and not 0 <= min(numbers) <= max(numbers) < self.rows:
            raise IndexError(f"of {self.rows} rows")
        found, decode = torch.empty(len(numbers), self.columns, dtype=torch.float32), _kernels().decode_from
        lines = found.numpy()
        for place, number in enumerate(numbers):
            decode(self.parts, lines[place : place + 1], number, number + 1)
        return found

    def decode(self, out: Tensor) -> None:
        """Write the matrix into `out`, of its shape, contiguous, float32 or bfloat16."""
        kernels, batch = _kernels(), Batch()
        decode = kernels.decode if out.dtype == torch.float32 else kernels.decode_bfloats
        batch.add(partial(decode, self.parts, arrays.array(out)), self.rows, self.columns)
        batch.run()


def times_all(matrices: Sequence[Product], x: Tensor) -> list[Tensor]:
    """The product of x with each of these, as each would give it alone."""
    batch = Batch()
    if x.dtype == torch.float32 and all(type(matrix) is Stored for matrix in matrices):
        return _times_stored(matrices, x, batch)  # type: ignore[arg-type]  # as was just looked at
    found = [matrix.begin(x, batch) for matrix in matrices]
    batch.run()
    return [each() for each in found]


def _times_stored(matrices: Sequence[Stored], x: Tensor, batch: Batch) -> list[Tensor]:
    """The same with fewer calls, for matrices whose products are what the loops write."""
    assert x.is_contiguous(), "loops read one number behind the other"
    rows, place = x.shape[0], x.data_ptr()
    sizes = [rows * matrix.rows for matrix in matrices]
    found = torch.split(x.new_empty(sum(sizes)), sizes)
    for matrix, y in zip(matrices, found, strict=True):
        batch.multiply(matrix, place, y.data_ptr(), rows)
    batch.run()
    return [y.view(rows, matrix.rows) for matrix, y in zip(matrices, found, strict=True)]


@torch.inference_mode()  # which is each thread's own
def _multiply_block(matrix: Stored, x: Tensor, y: Tensor, begin: int, end: int) -> None:
    """Rows [begin, end) of a matrix times x, float32 [columns, rows], into the same ones of y [matrix rows, rows]."""
    if not hasattr(_room, "numbers"):
        torch.set_num_threads(1)  # of this thread: others compute beside it
        _room.numbers = torch.empty(0)
    if _room.numbers.numel() < (end - begin) * matrix.columns:
        _room.numbers = torch.empty((end - begin) * matrix.columns)
    block = _room.numbers[: (end - begin) * matrix.columns].view(end - begin, matrix.columns)
    _kernels().decode_from(matrix.parts, block.numpy(), begin, end)
    torch.mm(block, x, out=y[begin:end])


class _Room(threading.local):
    """Memory of each thread for a block of a matrix."""

    numbers: Tensor


_room = _Room()


def stored(make: Callable[[], Any], shape: Sequence[int], *tensors: Tensor) -> Stored | None:
    """A matrix in the layout that `make` gives.

    None if there is no compiler, the matrix is small, or the tensors do not lie as loops need them.
    """
    if len(shape) != 2 or shape[0] * shape[1] < SMALLEST:
        return None
    return _as_it_lies(make, shape, *tensors)


def _as_it_lies(make: Callable[[], Any], shape: Sequence[int], *tensors: Tensor) -> Stored | None:
    """The same of a matrix of any size."""
    if shape[1] % UNIT:
        return None
    if not all(tensor.device.type == "cpu" and tensor.is_contiguous() for tensor in tensors):
        return None
    return Stored(make(), shape[0], shape[1]) if has_compiler() else None


def decoded(find: Callable[[], Stored | None], out: Tensor) -> bool:
    """Write the matrix that `find` gives into `out`; False, and nothing is written, if it gives none for this `out`."""
    if out.ndim != 2 or out.device.type != "cpu" or out.dtype not in WRITTEN or not out.is_contiguous():
        return False
    matrix = find() if out.numel() >= SMALLEST_DECODED else None
    if matrix is None:
        return False
    matrix.decode(out)
    return True


def floats(numbers: Tensor) -> Stored | None:
    """A matrix of float32, of any size: of a layer whose products are computed in one call."""
    return _as_it_lies(lambda: layouts.Floats(arrays.array(numbers)), numbers.shape, numbers)


def plain(numbers: Tensor) -> Stored | None:
    """A matrix of bfloat16 or float16; None for others."""
    if numbers.dtype == torch.bfloat16:
        return stored(lambda: layouts.Bfloats(arrays.array(numbers)), numbers.shape, numbers)
    if numbers.dtype == torch.float16:
        return stored(lambda: layouts.Halves(arrays.array(numbers)), numbers.shape, numbers)
    return None


def integers(codes: Tensor, absmax: Tensor, level: float) -> Stored | None:
    """A matrix of int8 [rows, columns] times float32 [rows] times a number."""
    return stored(
        lambda: layouts.Integers(arrays.array(codes), arrays.array(absmax), np.float32(level)),
        codes.shape,
        codes,
        absmax,
    )


def blocks(kind: str, rows: Tensor, columns: int) -> Stored | None:
    """A matrix of GGUF's blocks of a type, uint8 [rows, bytes]; None for types without a loop."""
    layout = layouts.BLOCKS.get(kind)
    if layout is None:
        return None
    tables = arrays.TABLES.get(kind, ())
    return stored(lambda: layout(arrays.array(rows), *(make() for make in tables)), (len(rows), columns), rows)


@lru_cache(maxsize=1)
def _kernels() -> Any:
    """The compiled loops; numba is imported with them."""
    from engine.model.products.loops import kernels  # noqa: PLC0415

    return kernels


@lru_cache(maxsize=1)
def native() -> Any:
    """The compiled shares; numba is imported with them."""
    from engine.model.products import native  # noqa: PLC0415

    return native
