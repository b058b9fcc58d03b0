"""The head of a network for one row in one call: the logits of a row, from its numbers to theirs."""

import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.model.passes.light.light_rows import are_light, is_narrow_row, product_of
from engine.model.products.layouts import Array
from engine.model.products.product import Stored, native
from engine.model.products.programs import Room, RoomError, Steps

KEPT = 4  # programs: for each thread and type of numbers


@dataclass(frozen=True, slots=True)
class _Program:
    """The steps; `source`: the step and field that is told of the row, where it is no table's; `table`: of shares."""

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
        self._programs: dict[tuple[int, int, bool], _Program] = {}

    def __call__(self, states: Tensor) -> Tensor:
        """Logits [1, rows, vocabulary] of states [1, rows, width]."""
        program = self._program(states) if states.shape[1] == 1 else None
        if program is None:
            return self._module(states)  # type: ignore[no-any-return]
        found = torch.empty(1, 1, program.product.rows, dtype=states.dtype)
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
        if not (is_narrow_row(states) or are_light(states)) or self._module.bias is not None:
            return None
        product = product_of(self._module, 1)
        if type(product) is not Stored:
            return None
        key = threading.get_ident(), id(product), states.dtype == torch.float32
        program = self._programs.get(key)
        if program is None or not program.steps.is_as_allowed():
            if len(self._programs) >= KEPT:
                self._programs.clear()
            program = self._programs[key] = _laid_out(product, states)
        return program


def _laid_out(product: Stored, states: Tensor) -> _Program:
    while True:
        try:
            return _program_of(product, states)
        except RoomError:
            continue  # in a larger one


def _program_of(product: Stored, states: Tensor) -> _Program:
    steps, room, loop, is_wide = Steps(), Room(), native(), states.dtype == torch.float32
    x, y = states[0], torch.empty(0) if is_wide else room.take(1, product.rows)
    if not is_wide:
        x = room.take(1, product.columns)
        steps.add(loop.steps.WIDEN, 0, x, product.columns)
    table = steps.multiply([(product, y)], x, room)
    written = None if is_wide else steps.add(loop.steps.NARROW, y, 0, 0, 1, product.rows)
    steps.finish()
    reads = not is_wide or product.order is not None
    return _Program(steps, room, product, (0, 1) if reads else None, table, written)
