"""The head of a network for few rows in one call: their logits, from the numbers of rows to those of the vocabulary."""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.model.passes.light.light_rows import are_light, are_narrow, product_of
from engine.model.products.layouts import Array
from engine.model.products.product import Stored, native
from engine.model.products.programs import Room, RoomError, Steps

KEPT = 32  # programs: for each thread, type of numbers and number of rows
MOST_ROUNDED = 1 << 22  # logits of bfloat16 that are written here: sums in float32 have room as long as the thread runs


@dataclass(frozen=True, slots=True)
class _Program:
    """The steps; `source`: the step and field that is told of the rows, where it is no table's; `table`: of shares."""

    steps: Steps
    room: Room
    product: Stored
    source: tuple[int, int] | None
    table: Array
    written: int | None  # the step that writes bfloat16


class Head:
    """Of a linear module."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._programs: OrderedDict[tuple[int, ...], _Program] = OrderedDict()

    def __call__(self, states: Tensor) -> Tensor:
        """Logits [1, rows, vocabulary] of states [1, rows, width]."""
        program = self._program(states)
        if program is None:
            return self._module(states)  # type: ignore[no-any-return]
        found = torch.empty(1, states.shape[1], program.product.rows, dtype=states.dtype)
        lines, loop = program.steps.program, native()
        if program.source is None:
            program.table[:, loop.X] = states.data_ptr()
        else:
            lines[program.source] = states.data_ptr()
        if program.written is None:
            program.table[:, loop.Y] = found.data_ptr()
        else:
            lines[program.written, 2] = found.data_ptr()
        program.steps.run(0, len(program.steps))
        return found

    def _program(self, states: Tensor) -> _Program | None:
        """Of the weight as it is in place now; None for other rows or weights than loops multiply."""
        if not (are_narrow(states) or are_light(states)) or self._module.bias is not None:
            return None
        rows, is_wide = states.shape[1], states.dtype == torch.float32
        product = product_of(self._module, rows)
        if type(product) is not Stored or not (is_wide or rows * product.rows <= MOST_ROUNDED):
            return None
        key = threading.get_ident(), id(product), is_wide, rows
        program = self._programs.get(key)
        if program is None or not program.steps.is_as_allowed():
            program = self._programs[key] = _laid_out(product, states)
        self._programs.move_to_end(key)
        if len(self._programs) > KEPT:
            self._programs.popitem(last=False)
        return program


def _laid_out(product: Stored, states: Tensor) -> _Program:
    while True:
        try:
            return _program_of(product, states)
        except RoomError:
            continue  # in a larger one


def _program_of(product: Stored, states: Tensor) -> _Program:
    steps, room, loop, is_wide = Steps(), Room(), native(), states.dtype == torch.float32
    rows, columns, x = states.shape[1], product.columns, states[0]
    reads = not is_wide or rows > 1  # into the room, where what packs several rows finds them
    if reads:
        x = room.take(rows, columns)
    if not is_wide:
        steps.add(loop.steps.WIDEN, 0, x, x.numel())
    elif reads:
        steps.add(loop.steps.PLACE, 0, x, x.numel(), rows, 1, columns)
    y = torch.empty(0) if is_wide else room.take(rows, product.rows)
    table = steps.multiply([(product, y)], x, room, is_narrow=not is_wide and rows > 1)
    written = None if is_wide else steps.add(loop.steps.NARROW, y, 0, 0, 1, y.numel())
    steps.finish()
    reads |= product.order is not None
    return _Program(steps, room, product, (0, 1) if reads else None, table, written)
