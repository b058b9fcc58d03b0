"""What the steps of layers are told anew in each pass: where rows are, where weights lie now, and which slots are new.

Whoever asks comes here behind gigabytes of weights: no cache holds what the interpreter touches. So numbers of all
layers that go together are told by a few operations on arrays, and a layer costs as few objects as it can.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from engine.model.products.layouts import Array
from engine.model.products.product import native

if TYPE_CHECKING:
    from engine.model.passes.light.layer_programs import LayerProgram

WEIGHT = 2  # the field of the steps NORM and BIAS with the address of a parameter
COSINE, SINE = 2, 3  # of the step TURN
CHOICE = 8  # bytes of an expert's number

Source = tuple[dict[str, Any], str]
"""A module's parameters or buffers, and the name of one that may lie elsewhere in another pass."""


class ProgramInputs:
    """Of programs that run one behind the other: of each the rows are what the one before has found."""

    def __init__(self, programs: "Sequence[LayerProgram]") -> None:
        """Once their steps are finished."""
        self._cells, self._size = list[int](), 0
        self._sources: list[Source] = []
        told = [program.told for program in programs]
        self._x, self._x_of = self._each(programs, [each.states for each in told])
        self._found, self._found_of = self._each(programs, [each.found for each in told])
        self._normed, _ = self._each(programs, [each.normed for each in told])
        turns = [each.turns for each in told]
        self._cosines, _ = self._each(programs, [[(step, COSINE) for step in some] for some in turns])
        self._sines, _ = self._each(programs, [[(step, SINE) for step in some] for some in turns])
        self._lying = self._of_sources(programs)
        self._choices, self._choice_places = self._of_choices(programs)
        self._without_slots = len(self._cells)
        self._slots = [self._take(cells) for cells in zip(*map(_slot_cells, programs), strict=True)]
        self._rows = [int(program.query.shape[2]) for program in programs]
        self._widths = np.array([program.query.shape[3] for program in programs], np.int64)
        self._places, self._told = np.array(self._cells, np.int64), np.zeros(len(self._cells), np.int64)

    def write(self, places: Sequence[int], turns: tuple[Tensor, ...], choice: int = 0, normed: int = 0) -> None:
        """Tell all but slots, by addresses: `places`, of the first rows, and of what each program finds.

        `turns`: cosines and sines. `choice`: int64, where all choices of experts are written to one behind the other.
        """
        told, where = self._told, np.array(places, np.int64)
        told[self._x], told[self._found] = where[self._x_of], where[self._found_of + 1]
        told[self._normed] = normed
        told[self._cosines], told[self._sines] = turns[0].data_ptr(), turns[1].data_ptr()
        told[self._lying] = [some[name].data_ptr() for some, name in self._sources]
        told[self._choices] = choice + self._choice_places
        end = self._without_slots
        native().write_all(self._places[:end], told[:end])

    def claim_slots(self, slots: Sequence[Any], masks: Sequence[Tensor | None]) -> None:
        """Take slots of the cache for the rows of each program, and tell which these are, and what is seen."""
        claimed = [_claimed(each, rows) for each, rows in zip(slots, self._rows, strict=True)]
        keys, values, steps, sizes, begins, starts, ends = np.array(claimed, np.int64).T
        masked = [(0, 0) if mask is None else (mask.data_ptr(), mask.stride(2)) for mask in masks]
        written, seen = begins * sizes * self._widths, starts * sizes * self._widths
        numbers = (
            *(keys + written, steps, values + written, steps),
            *(keys + seen, values + seen, steps, steps),
            *np.array(masked, np.int64).T,
            ends - starts,
        )
        told, begin = self._told, self._without_slots
        for part, some in zip(self._slots, numbers, strict=True):
            told[part] = some
        native().write_all(self._places[begin:], told[begin:])

    def _take(self, cells: Iterable[int]) -> slice:
        begin = len(self._cells)
        self._cells += cells
        return slice(begin, len(self._cells))

    def _each(
        self, programs: "Sequence[LayerProgram]", fields: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[slice, Array]:
        """Fields of programs' steps, and of each its program."""
        found = [(number, program.cell(*each)) for number, program in enumerate(programs) for each in fields[number]]
        return self._take(cell for _, cell in found), np.array([number for number, _ in found], np.int64)

    def _of_sources(self, programs: "Sequence[LayerProgram]") -> slice:
        cells = list[int]()
        for program in programs:
            for step, module, name in program.told.parameters:
                self._sources.append((module._parameters, name))
                cells.append(program.cell(step, WEIGHT))
            if program.sinks is not None:
                self._sources.append((program.sinks._parameters, "sinks"))
                cells.append(program.of_attention.ctypes.data + 8 * native().works.attending.SINKS)
            if program.routed is not None:
                for source, cell in program.routed.sources(program.cell):
                    self._sources.append(source)
                    cells.append(cell)
        return self._take(cells)

    def _of_choices(self, programs: "Sequence[LayerProgram]") -> tuple[slice, Array]:
        cells, places, begin = list[int](), list[int](), 0
        for program in programs:
            own = program.routed.choice_cells(program.cell) if program.routed is not None else []
            cells += own
            places += [begin] * len(own)
            begin += CHOICE * program.pairs
        return self._take(cells), np.array(places, np.int64)


def _claimed(slots: Any, rows: int) -> tuple[int, ...]:
    """Where a layer's keys and values lie, the distance from head to head, bytes of a number, and which slots to use.

    These are the first new one, the first one that is seen, and the end.
    """
    keys, values, begin = slots.claim(rows)
    return keys.data_ptr(), values.data_ptr(), keys.stride(1), keys.itemsize, begin, slots.start, begin + rows


def _slot_cells(program: "LayerProgram") -> list[int]:
    """Where keys and values are written, each with the distance from head to head; then what attention is told."""
    loop, here = native().works.attending, program.of_attention.ctypes.data
    kept = [program.cell(step, number + more) for step, number in program.told.kept for more in (0, 1)]
    fields = loop.KEYS, loop.VALUES, loop.KEY_STEP, loop.VALUE_STEP, loop.MASK, loop.MASK_STEP, loop.SLOTS
    return [*kept, *(here + 8 * number for number in fields)]
