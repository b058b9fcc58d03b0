"""The steps of a layer for few rows, see `products.loops.steps`: laid out once, and done with other addresses.

What lies between the steps has one room, in which every layer of a thread's networks works in turn.
"""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.model.products.bfloat_loops import PAIRS
from engine.model.products.layouts import Array
from engine.model.products.product import OF_BYTES, SHARES, Stored, native, shares_of
from engine.model.products.team import team
from engine.own_thread import computes_alone, threads_allowed

LINE = 16  # numbers of a line of the cache, at which parts of the room begin
WORTH_SPREADING = 1 << 16  # numbers of a gate that threads share: one takes some fifty microseconds for them
AS_KIND = frozenset({PAIRS.kind, "short", "shorts", "whole", OF_BYTES})  # how rows lie: also the name of their loop
ROOM_NUMBERS = 1 << 20  # of the first room


class _Room(threading.local):
    numbers: Tensor | None = None


_room = _Room()


class Room:
    """Parts of the memory between steps."""

    def __init__(self) -> None:
        self._taken = 0
        if _room.numbers is None:
            _room.numbers = _aligned(ROOM_NUMBERS)
        self.numbers = _room.numbers  # kept alive by whoever has addresses of it

    def take(self, *shape: int) -> Tensor:
        """Numbers of this shape that nobody else has. Raises `RoomError` if there are no more."""
        count = int(np.prod(shape))
        begin, self._taken = self._taken, self._taken + -(-count // LINE) * LINE
        if self._taken > len(self.numbers):
            _room.numbers = _aligned(2 * self._taken)
            raise RoomError
        return self.numbers[begin : begin + count].view(shape)


class RoomError(Exception):
    """The room was too small: the next one is larger."""


def _aligned(count: int) -> Tensor:
    with torch.inference_mode(False):  # or it could be written to in that mode alone
        whole = torch.empty(count + LINE, dtype=torch.float32)  # whatever others have torch take for granted meanwhile
    begin = -whole.data_ptr() % (4 * LINE) // 4
    return whole[begin : begin + count]


class Steps:
    """A program under construction, and then at work."""

    def __init__(self) -> None:
        self.threads, self.more_follow = threads_allowed(), computes_alone()
        self._lines: list[list[int]] = []
        self._kept: list[Any] = []  # what addresses point to
        self.program: Array = np.zeros((0, 0), np.int64)
        self._place = 0  # of the program

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, *numbers: Any) -> int:
        """A step; tensors stand for their addresses, and floats for themselves. Returns its number."""
        loop = native()
        line = [0] * loop.steps.STEP
        for field, number in enumerate(numbers):
            line[field] = _as_integer(number)
        if work := loop.steps.WITH_LOOPS.get(line[0]):
            line[loop.steps.LOOP] = loop.works.loop_for(work)
        self._lines.append(line)
        return len(self._lines) - 1

    def change(self, step: int, field: int, *numbers: Any) -> None:
        """Have a step that was added say these from a field on."""
        self._lines[step][field : field + len(numbers)] = map(_as_integer, numbers)

    def keep(self, numbers: Tensor) -> Tensor:
        """The same, which is there as long as the steps are."""
        self._kept.append(numbers)
        return numbers

    def keep_all(self, some: Any) -> None:
        """The same of whatever addresses point to."""
        self._kept.append(some)

    def multiply(
        self, products: Sequence[tuple[Stored, Tensor]], x: Tensor, room: Room, is_narrow: bool = False
    ) -> Array:
        """Write the products of x [rows, columns] with these matrices into tensors [rows, matrix rows].

        `is_narrow`: they are rounded, several rows to bfloat16 where a matrix takes such. Returns the table of shares.
        """
        kinds = [self._kind(matrix, len(x), is_narrow) for matrix, _ in products]
        places = {kind: self._place_of(x, kind, room) for kind in dict.fromkeys(kinds)}
        lines = [
            matrix.line(places[kind], y.data_ptr(), len(x), kind[0] if kind[0] in AS_KIND else "")
            for (matrix, y), kind in zip(products, kinds, strict=True)
        ]
        table = shares_of(lines, self.threads, self.more_follow)
        self.share(table, products)
        return table

    @staticmethod
    def _kind(matrix: Stored, rows: int, is_narrow: bool) -> tuple[str, int]:
        """How rows lie that a matrix is multiplied with, "" for as they are; and in which order, see `Stored.order`."""
        if matrix.rounds(rows):
            return OF_BYTES, 0
        order = matrix.order_of(rows)
        if order is not None:
            names = ("short", "shorts") if is_narrow else ("digits", "whole")
            return names[rows > 1], order
        if rows == 1:
            return "", 0
        if is_narrow and matrix.takes_bfloats:
            return PAIRS.kind, 0
        return "packed" if matrix.reads_packed() else "", 0

    def loop_of(self, matrix: Stored, rows: int, is_narrow: bool) -> int:
        """The address of the loop that multiplies so many rows with a matrix."""
        name, _ = self._kind(matrix, rows, is_narrow)
        return matrix.places(name if name in AS_KIND else ("several" if rows > 1 else "alone"))[0]

    def packing(self, matrix: Stored, rows: int, is_narrow: bool) -> tuple[int, int, int, int, int] | None:
        """How rows are packed that lie anywhere, see `groups.KIND`; None where that loop reads them as they are."""
        (name, order), loop, columns = self._kind(matrix, rows, is_narrow), native(), matrix.columns
        if not name:
            return None
        if name in {"packed", PAIRS.kind}:
            is_paired = name == PAIRS.kind
            work, size, block = ("pairs", 2, loop.pairs.BLOCK) if is_paired else ("pack", 4, loop.kernels.BLOCK)
            step = max(1, WORTH_SPREADING // (rows * block))
            return loop.works.loop_for(work), 0, size * columns, -(-columns // block), step
        if name == OF_BYTES:
            return loop.works.loop_for("bytes"), 0, loop.rounded.bytes_of_a_row(columns), 0, loop.ROUNDED_TOGETHER
        is_short = name in {"short", "shorts"}
        return loop.works.loop_for("digits"), 2 * order + is_short, loop.whole_numbers.bytes_of_a_row(columns), 0, 1

    def _place_of(self, x: Tensor, kind: tuple[str, int], room: Room) -> int:
        """Where x [rows, columns] lies so, once the steps until here are done."""
        name, order = kind
        if not name:
            return x.data_ptr()
        if name in {"digits", "short"}:
            return self.in_whole_numbers(x, room, order, is_short=name == "short")[0]
        if name == OF_BYTES:
            return self._in_bytes(x, room)
        if name in {"shorts", "whole"}:
            return self._in_digits(x, room, order, is_short=name == "shorts")
        is_paired = name == PAIRS.kind
        packed = room.take(x.numel() // 2 if is_paired else x.numel())
        most = max(WORTH_SPREADING, -(-x.numel() // (SHARES * self.threads)))
        job = x.data_ptr(), packed.data_ptr(), *x.shape
        self.share(native().packings([job], most, "pairs" if is_paired else "pack"), (x, packed))
        return packed.data_ptr()

    def _in_digits(self, x: Tensor, room: Room, order: int, is_short: bool) -> int:
        """Where two to four rows of x [rows, columns] lie together in whole numbers."""
        rows, columns = x.shape
        written = room.take(rows * native().whole_numbers.bytes_of_a_row(columns) // 4)
        lines = native().digits([(x.data_ptr(), written.data_ptr(), rows, columns, order, is_short)])
        self.share(lines, (x, written))
        return written.data_ptr()

    def _in_bytes(self, x: Tensor, room: Room) -> int:
        """Where rows of x [rows, columns] lie rounded to 8 bits."""
        rows, columns = x.shape
        if rows == 1:
            return self.in_bytes(x, room)[0]
        written = room.take(rows * native().rounded.bytes_of_a_row(columns) // 4)
        self.share(native().rounding([(x.data_ptr(), written.data_ptr(), rows, columns)]), (x, written))
        return written.data_ptr()

    def in_bytes(self, x: Tensor, room: Room) -> list[int]:
        """Where each row of x [rows, columns] lies rounded to 8 bits; rows at one place are written once."""
        columns, found = x.shape[1], dict[int, int]()
        for row in x:
            if row.data_ptr() not in found:
                written = room.take(native().rounded.bytes_of_a_row(columns) // 4)
                self.add(native().steps.BYTES, row, columns, written)
                found[row.data_ptr()] = written.data_ptr()
        return [found[row.data_ptr()] for row in x]

    def in_whole_numbers(self, x: Tensor, room: Room, order: int, is_short: bool) -> list[int]:
        """Where loops for whole numbers read each row of x [rows, columns]; rows at one place are written once.

        `order`: see `Stored.order`. `is_short`: in fewer digits.
        """
        columns, found = x.shape[1], dict[int, int]()
        size = -(-native().whole_numbers.bytes_of_a_row(columns) // 4)
        for row in x:
            if row.data_ptr() not in found:
                digits = room.take(size)
                self.add(native().steps.DIGITS, row, columns, digits, is_short, order)
                found[row.data_ptr()] = digits.data_ptr()
        return [found[row.data_ptr()] for row in x]

    def share(self, table: Array, kept: Any) -> int:
        """Do the shares of a table; `kept` holds what they point to."""
        self._kept.append((table, kept))
        return self.add(native().steps.SHARES, table.ctypes.data, len(table))

    def spread(self, work: str, count: int, step: int, kept: Any, matrix: int = 0, x: int = 0, y: int = 0) -> int:
        """Do the work that `works.loop_for` has for `count` of something, `step` at a time; `kept`: what is read."""
        loop, begins = native(), np.arange(0, count, step)
        table = np.zeros((len(begins), loop.shares.SHARE), np.int64)
        for field, numbers in (loop.LOOP, loop.works.loop_for(work)), (loop.MATRIX, matrix), (loop.X, x), (loop.Y, y):
            table[:, field] = numbers
        table[:, loop.BEGIN], table[:, loop.END] = begins, np.minimum(begins + step, count)
        return self.share(table, kept)

    def attend(self, told: Array) -> int:
        """Attention as it is told, see `loops.attending`: of several rows over keys of bfloat16 in pairs."""
        loop, shares, place = native().works.attending, SHARES * self.threads, told.ctypes.data
        heads, rows, group = (int(told[field]) for field in (loop.HEADS, loop.ROWS, loop.GROUP))
        if rows == 1 or not told[loop.NARROW]:
            work = "narrow attention" if told[loop.NARROW] else "attention"
            return self.spread(work, heads, max(1, heads // shares), told, matrix=place)
        shared, tiles = heads // group, native().works.attending_pairs.tiles_of(group * rows)
        parts = told[loop.PARTS] = min(tiles, -(-shares // shared))
        return self.spread("attention in pairs", shared * parts, max(1, shared * parts // shares), told, matrix=place)

    def gate(self, x: Tensor, y: Tensor) -> None:
        """Write x / (1 + e to the power of -x) * y into x, both of one shape; all threads do where it is much."""
        count = x.numel()
        if self.threads < 2 or count < WORTH_SPREADING:
            self.add(native().steps.GATE, x, y, count)
            return
        step = -(-count // (SHARES * self.threads * LINE)) * LINE
        self.spread("gate", count, step, (x, y), x=x.data_ptr(), y=y.data_ptr())

    def finish(self) -> None:
        """No more steps follow."""
        self.program = np.array(self._lines, np.int64)
        self._place = self.program.ctypes.data

    def is_as_allowed(self) -> bool:
        """Whether as many threads may compute as when it was laid out."""
        return self.threads == threads_allowed() and self.more_follow == computes_alone()

    def run(self, begin: int, end: int) -> None:
        """Do steps [begin, end)."""
        line = 8 * native().steps.STEP
        team().run_steps([(self._place + line * begin, end - begin)], self.threads, self.more_follow)

    @staticmethod
    def run_all(programs: Sequence["Steps"]) -> None:
        """Do the steps of several programs that were laid out for as many threads, one behind the other."""
        first = programs[0]
        team().run_steps([(each._place, len(each)) for each in programs], first.threads, first.more_follow)


def _as_integer(number: Any) -> int:
    if isinstance(number, Tensor):
        return number.data_ptr()
    if isinstance(number, float):
        return int(np.float32(number).view(np.int32))
    return int(number)
