"""The experts of one row in few calls: their products, what lies between them and their sum, by compiled steps.

The steps are laid out once for so many experts of a layer; a pass only tells where the chosen ones lie.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.model.products.grouped import Gate, Member
from engine.model.products.layouts import Array
from engine.model.products.product import Stored, native, shares_of
from engine.model.products.programs import Room, RoomError, Steps

KEPT = 8  # programs: for each thread, number of experts and layout


@dataclass(frozen=True, slots=True)
class _Shares:
    """The products of one stack: lines of shares, and of each line the matrix that it is a part of."""

    table: Array
    owner: Array

    def tell(self, matrices: Sequence[Stored]) -> None:
        """Have the lines multiply with these matrices, which are laid out as those were that the lines are of."""
        places = np.array([matrix.places(several=False)[1] for matrix in matrices], np.int64)
        self.table[:, native().MATRIX] = places[self.owner]


@dataclass(frozen=True, slots=True)
class _Program:
    """Steps [0, `middle`) give `inner`, from `behind` on they read `gated`; `mix` is the last one.

    `biases`: of up and of down the steps that are told each expert's, and the field for where it lies.
    """

    steps: Steps
    room: Room  # of its addresses
    x: Tensor
    up: _Shares
    inner: Sequence[Tensor]  # of each piece [experts, rows]
    middle: int
    behind: int
    gated: Tensor
    down: _Shares
    outputs: Tensor
    mix: int
    biases: tuple[tuple[int, int], tuple[int, int]]


class OneRow:
    """Of the experts of one layer. `gate`: what lies between the stacks, where that is known."""

    def __init__(self, gate: Gate | None, has_bias: bool = False) -> None:
        self._gate, self._has_bias = gate, has_bias
        self._programs: dict[tuple[int, ...], _Program] = {}

    def mixed(
        self,
        x: Tensor,
        up: Sequence[Member],
        down: Sequence[Member],
        weights: Tensor,
        biases: Sequence[Sequence[Tensor]] = (),
    ) -> Tensor:
        """The weighted sum of the experts' outputs, float32 [1, width], in their order; their gate must be known.

        x [1, columns]; weights [1, experts]. `up`, `down`: of each expert, all alike. `biases`: of up and of down,
        those of each expert, float32; none unless all have them.
        """
        assert self._gate is not None
        assert bool(biases) == self._has_bias
        program = self._begun(x, up, down)
        lines = program.steps.program
        for (first, field), some in zip(program.biases, biases, strict=False):
            lines[first : first + len(some), field] = [bias.data_ptr() for bias in some]
        found = torch.empty(1, program.outputs.shape[1])
        factors = weights.float().contiguous()
        line = lines[program.mix]
        line[2], line[3] = factors.data_ptr(), found.data_ptr()
        program.steps.run(0, len(program.steps))
        return found

    def outputs(
        self, x: Tensor, up: Sequence[Member], down: Sequence[Member], between: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """The experts' outputs without biases, float32 [experts, width], which the next call writes over.

        `between`: what lies between the stacks, of [experts, up rows] in x's type.
        """
        program = self._begun(x, up, down)
        program.steps.run(0, program.middle)
        if len(program.inner) == 1:
            inner = program.inner[0]
        elif up[0].is_woven:
            inner = torch.stack(list(program.inner), -1).flatten(-2)
        else:
            inner = torch.cat(list(program.inner), dim=1)
        program.gated.copy_(between(inner.to(x.dtype)))
        program.steps.run(program.behind, program.biases[1][0])
        return program.outputs

    def _begun(self, x: Tensor, up: Sequence[Member], down: Sequence[Member]) -> _Program:
        program = self._program(up, down)
        program.x.copy_(x)
        program.up.tell([piece for member in up for piece in member.pieces])
        program.down.tell([piece for member in down for piece in member.pieces])
        return program

    def _program(self, up: Sequence[Member], down: Sequence[Member]) -> _Program:
        loops = (piece.places(several=False)[0] for member in (up[0], down[0]) for piece in member.pieces)
        key = (threading.get_ident(), len(up), *loops)
        program = self._programs.get(key)
        if program is not None and program.steps.is_as_allowed():
            return program
        if len(self._programs) >= KEPT:
            self._programs.clear()
        while True:
            try:
                self._programs[key] = program = self._laid_out(up, down)
            except RoomError:
                continue  # in a larger one
            return program

    def _laid_out(self, up: Sequence[Member], down: Sequence[Member]) -> _Program:
        steps, room, loop, count = Steps(), Room(), native(), len(up)
        first, last = up[0].pieces, down[0].pieces[0]
        x = room.take(1, first[0].columns)
        inner = [room.take(count, piece.rows) for piece in first]
        sources = _sources(steps, room, x.expand(count, -1), first[0])
        up_shares = _shares(steps, up, sources, inner)
        middle = len(steps)
        gated, gates = self._laid_out_gate(steps, room, inner, last.columns)
        behind = len(steps)
        outputs = room.take(count, last.rows)
        down_shares = _shares(steps, down, _sources(steps, room, gated, last), [outputs])
        offsets = len(steps)
        for row in outputs if self._gate and self._has_bias else ():
            steps.add(loop.steps.BIAS, row, 0, 1, last.rows)
        mix = steps.add(loop.steps.MIX, outputs, 0, 0, count, last.rows)
        steps.finish()
        return _Program(
            steps, room, x, up_shares, inner, middle, behind, gated, down_shares, outputs, mix,
            ((gates, 4), (offsets, 2)),
        )  # fmt: skip

    def _laid_out_gate(self, steps: Steps, room: Room, inner: Sequence[Tensor], half: int) -> tuple[Tensor, int]:
        """Numbers for what down multiplies, [experts, half], and the first of the steps that write it."""
        loop, first, gate = native().steps, len(steps), self._gate
        if gate is None:
            return room.take(len(inner[0]), half), first
        if gate.limit:
            gated = room.take(len(inner[0]), half)
            for row, y in enumerate(gated):
                one = inner[0][row]
                other, step = (inner[1][row], 1) if len(inner) == 2 else (one[1:], 2)
                steps.add(loop.CLAMPED, one, other, step, 0, y, half, gate.alpha, gate.limit)
            return gated, first
        if len(inner) == 2:
            steps.add(loop.GATE, inner[0], inner[1], len(inner[0]) * half)
        else:
            for row in inner[0]:
                steps.add(loop.GATE, row[:half], row[half:], half)
        return inner[0][:, :half], first


def _sources(steps: Steps, room: Room, x: Tensor, matrix: Stored) -> list[int]:
    """Where loops for such a matrix read each row of x [experts, columns]."""
    return steps.in_whole_numbers(x, room) if matrix.has_whole_numbers() else [row.data_ptr() for row in x]


def _shares(steps: Steps, members: Sequence[Member], sources: Sequence[int], found: Sequence[Tensor]) -> _Shares:
    """A step that multiplies each row with its expert's matrices."""
    loop: Any = native()
    lines = [
        piece.line(source, y[expert].data_ptr(), 1)
        for expert, (member, source) in enumerate(zip(members, sources, strict=True))
        for piece, y in zip(member.pieces, found, strict=True)
    ]
    table = shares_of(lines, steps.threads, steps.more_follow)
    owners = {line[loop.Y]: number for number, line in enumerate(lines)}
    steps.share(table, [member.pieces for member in members])
    return _Shares(table, np.array([owners[y] for y in table[:, loop.Y].tolist()]))
