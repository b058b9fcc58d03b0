"""The experts of one row as steps: their products, what lies between them, and their sum."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from engine.model.products.grouped import Gate, Member
from engine.model.products.layouts import Array
from engine.model.products.product import OF_BYTES, Stored, native, shares_of
from engine.model.products.programs import Room, Steps


@dataclass(frozen=True, slots=True)
class Shares:
    """The products of one stack: lines of shares, and of each line the matrix that it is a part of."""

    table: Array
    owner: Array

    def tell(self, matrices: Sequence[Stored]) -> None:
        """Have the lines multiply with these matrices, which are laid out as those were that the lines are of."""
        places = np.array([matrix.told.ctypes.data for matrix in matrices], np.int64)
        self.table[:, native().MATRIX] = places[self.owner]


@dataclass(frozen=True, slots=True)
class ExpertSteps:
    """Steps [first, `middle`) give `inner`, from `behind` on they read `gated`; `mix` is the last one.

    `biases`: of up and of down the steps that are told each expert's, and the field for where it lies.
    """

    up: Shares
    inner: Sequence[Tensor]  # of each piece [experts, rows]
    middle: int
    behind: int
    gated: Tensor
    down: Shares
    outputs: Tensor
    mix: int
    biases: tuple[tuple[int, int], tuple[int, int]]
    numbers: Array  # 0, 1, ... of the experts


def lay_out(
    steps: Steps,
    room: Room,
    x: Tensor,
    up: Sequence[Member],
    down: Sequence[Member],
    gate: Gate | None,
    has_bias: bool,
    is_narrow: bool,
) -> ExpertSteps:
    """Add the experts of one row, x [1, columns], in their order. Raises `RoomError`.

    `up`, `down`: of each expert, all alike. `gate`: what lies between, where that is known; else whoever asks for the
    steps does that. `has_bias`: of both stacks. `is_narrow`: of a network that computes in bfloat16. `MIX` has yet to
    be told of weights, and where to.
    """
    loop, count = native().steps, len(up)
    first, last = up[0].pieces, down[0].pieces[0]
    inner = [room.take(count, piece.rows) for piece in first]
    up_shares = _shares(steps, room, x.expand(count, -1), up, inner, is_narrow)
    middle = len(steps)
    gated, gates = _gate(steps, room, inner, last.columns, gate)
    behind = len(steps)
    outputs = room.take(count, last.rows)
    down_shares = _shares(steps, room, gated, down, [outputs], is_narrow)
    offsets = len(steps)
    for row in outputs if gate and has_bias else ():
        steps.add(loop.BIAS, row, 0, 1, last.rows)
    mix = steps.add(loop.MIX, outputs, 0, 0, count, last.rows)
    biases = (gates, 4), (offsets, 2)
    return ExpertSteps(up_shares, inner, middle, behind, gated, down_shares, outputs, mix, biases, np.arange(count))


def _gate(steps: Steps, room: Room, inner: Sequence[Tensor], half: int, gate: Gate | None) -> tuple[Tensor, int]:
    """Numbers for what down multiplies, [experts, half], and the first of the steps that write it."""
    loop, first = native().steps, len(steps)
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


def _shares(
    steps: Steps, room: Room, x: Tensor, members: Sequence[Member], found: Sequence[Tensor], is_narrow: bool
) -> Shares:
    """Steps that multiply each row of x [experts, columns] with its expert's matrices."""
    first = members[0].pieces[0]
    order, kind = first.order, "short" if is_narrow else ""
    if first.rounds(1):
        kind, sources = OF_BYTES, steps.in_bytes(x, room)
    elif order is None:
        kind, sources = "", [row.data_ptr() for row in x]
    else:
        sources = steps.in_whole_numbers(x, room, order, is_narrow)
    lines = [
        piece.line(source, y[expert].data_ptr(), 1, kind)
        for expert, (member, source) in enumerate(zip(members, sources, strict=True))
        for piece, y in zip(member.pieces, found, strict=True)
    ]
    table = shares_of(lines, steps.threads, steps.more_follow)
    owners = {line[native().Y]: number for number, line in enumerate(lines)}
    steps.share(table, [member.pieces for member in members])
    return Shares(table, np.array([owners[y] for y in table[:, native().Y].tolist()]))


@dataclass(frozen=True, slots=True)
class Stack:
    """The matrices of all experts of a layer, and what loops are told of each of their pieces: its address, int64.

    `biases`: of each expert float32 [rows], or none at all.
    """

    members: Sequence[Member]
    places: Array  # [experts, pieces]
    biases: Sequence[Tensor]
    bias_places: Array  # int64 [experts, 1]

    @classmethod
    def of(cls, member: Callable[[int], Member | None], experts: int, biases: Sequence[Tensor]) -> "Stack | None":
        """Of what `member` gives for the number of an expert; None unless one loop multiplies with all of them.

        Every one is asked for: a file may hold them in any order.
        """
        found = [each for each in map(member, range(experts)) if each is not None]
        if len(found) < experts or len(set(map(_kind, found))) != 1:
            return None
        places = [[piece.told.ctypes.data for piece in each.pieces] for each in found]
        bias_places = np.array([[bias.data_ptr()] for bias in biases], np.int64)
        return cls(found, np.array(places, np.int64), biases, bias_places)

    @property
    def first(self) -> Member:
        """One of them, to which all are alike."""
        return self.members[0]


def _kind(member: Member) -> tuple[object, ...]:
    """What members have in common that one loop multiplies with: it, and the sizes."""
    return member.is_woven, *((piece.places(piece.alone)[0], piece.rows, piece.columns) for piece in member.pieces)


@dataclass(frozen=True, slots=True)
class StayingExperts:
    """All experts of a layer, which stay in memory and are multiplied as they are stored.

    `brings`: the hook on their module that would bring them; `used`: to be told how many were. `most_rows`: of a pass.
    """

    gate: Gate
    up: Stack
    down: Stack
    brings: Callable[..., Any]
    used: Callable[[int], None]
    most_rows: int
