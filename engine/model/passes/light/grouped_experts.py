"""The experts of several rows as steps: which rows each is multiplied with, compiled code finds behind the router."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from engine.model.passes.light.experts import Stack, StayingExperts
from engine.model.products.layouts import Array
from engine.model.products.product import SHARES, SHARES_OF_A_BATCH, WORTH_A_SHARE, WORTH_A_THREAD, Stored, native
from engine.model.products.programs import Room, Steps

COUNT = 2  # the field of `SHARES` that says how many


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Where rows of pairs lie, [.., columns]; `sources`: the address of which of these each pair has, 0 for its own."""

    x: Tensor
    count: int
    sources: int = 0


class GroupedExperts:
    """Lays out the steps of pairs of a row and an expert, and has them tell each other what is known only in a pass.

    As `FollowedExperts` would have them multiplied, bit for bit.
    """

    def __init__(self, steps: Steps, room: Room, weights: Tensor, is_narrow: bool) -> None:
        """`weights`: float32 [rows, chosen], in the room. `is_narrow`: of a network that computes in bfloat16."""
        self._steps, self._room, self._is_narrow = steps, room, is_narrow
        loop = self._groups = native().works.groups
        self._told = np.zeros(loop.GROUPING, np.int64)
        self._kept: list[Array] = [self._told]
        self._counts: list[tuple[Array, int, int]] = []  # of a stack, the field, and the step that is told
        rows, chosen = weights.shape
        self._rows, self._pairs = rows, rows * chosen
        self._told[[loop.PASS_ROWS, loop.CHOSEN, loop.WEIGHTS]] = rows, chosen, weights.data_ptr()

    @property
    def choice_cell(self) -> int:
        """Where it is told where the router's choice lies: an address."""
        return int(self._told.ctypes.data) + 8 * int(self._groups.CHOICE)

    def lay_out(self, x: Tensor, staying: StayingExperts) -> Tensor:
        """Add the steps for x [rows, columns]; returns the weighted sums, [rows, width]. Raises `RoomError`."""
        loop, told, steps = self._groups, self._told, self._steps
        places = [self._scratch(self._pairs).ctypes.data for _ in range(3)]
        told[[loop.SOURCES, loop.OWNERS, loop.PAIRS_OF]] = places
        told[loop.EXPERTS] = len(staying.up.members)
        steps.add(native().steps.GROUP, told.ctypes.data)
        inner = self._multiplied(loop.UP, staying.up, _Pairs(x, self._pairs, places[0]))
        gated = self._gated(inner, staying)
        (outputs,) = self._multiplied(loop.DOWN, staying.down, _Pairs(gated, self._pairs))
        found = self._room.take(self._rows, outputs.shape[1])
        told[[loop.OUTPUTS, loop.OUTPUT_WIDTH, loop.MIXED]] = outputs.data_ptr(), outputs.shape[1], found.data_ptr()
        told[loop.DOWN_BIASES] = staying.down.bias_places.ctypes.data if staying.down.biases else 0
        self._spread("mix rows", self._rows)
        steps.keep_all(self._kept)
        return found

    def finish(self, program: Array) -> None:
        """Have the grouping tell the steps of a finished program how many shares they have."""
        place, step = program.ctypes.data, 8 * native().steps.STEP
        for told, field, line in self._counts:
            told[field] = place + step * line + 8 * COUNT

    def _spread(self, work: str, count: int) -> None:
        each = -(-count // (SHARES * self._steps.threads))
        self._steps.spread(work, count, each, self._told, matrix=self._told.ctypes.data)

    def _gated(self, inner: Sequence[Tensor], staying: StayingExperts) -> Tensor:
        """What lies between the stacks, [pairs, half], of [pairs, ...] of each piece."""
        loop, told, gate = self._groups, self._told, staying.gate
        half, width = staying.down.first.pieces[0].columns, inner[0].shape[1]
        gated, gates = self._room.take(self._pairs, half), inner[0].data_ptr()
        beside = 4 if gate.limit else 4 * half
        others = inner[1].data_ptr() if len(inner) > 1 else gates + beside
        each = 3 - len(inner) if gate.limit else 0
        told[[loop.GATES, loop.OTHERS, loop.DISTANCE, loop.EACH]] = gates, others, 4 * width, each
        told[[loop.HALF, loop.GATED, loop.NARROW]] = half, gated.data_ptr(), self._is_narrow
        told[loop.UP_BIASES] = staying.up.bias_places.ctypes.data if staying.up.biases else 0
        told.view(np.float32)[[2 * loop.LIMIT, 2 * loop.ALPHA]] = gate.limit, gate.alpha
        self._spread("gate pairs", self._pairs)
        return gated

    def _multiplied(self, field: int, stack: Stack, pairs: _Pairs) -> list[Tensor]:
        """What pairs of rows and experts give with each piece of a stack, [pairs, piece rows]."""
        loop, pieces = self._groups, stack.first.pieces
        told = self._keep(np.zeros(loop.STACK, np.int64))
        self._told[field] = told.ctypes.data
        found = [self._room.take(pairs.count, piece.rows) for piece in pieces]
        outs = self._keep(np.array([[y.data_ptr(), y.shape[1]] for y in found], np.int64))
        kinds, loops = _loops_for(self._steps, pieces, self._rows, self._is_narrow, gathers=bool(pairs.sources))
        packed = self._room.take(pairs.count * (int(kinds[:, loop.BYTES].max()) + loop.LINE) // 4)
        told[[loop.STACK_X, loop.STACK_SOURCES]] = pairs.x.data_ptr(), pairs.sources
        told[[loop.STACK_COLUMNS, loop.PIECES]] = pieces[0].columns, len(pieces)
        told[[loop.PLACES, loop.KINDS]] = stack.places.ctypes.data, self._keep(kinds).ctypes.data
        told[[loop.LOOPS, loop.FOUND]] = self._keep(loops).ctypes.data, outs.ctypes.data
        told[loop.PACKED] = packed.data_ptr()
        self._tables(told, pairs.count, len(pieces), kinds)
        self._steps.keep_all(stack)
        return found

    def _tables(self, told: Array, pairs: int, pieces: int, kinds: Array) -> None:
        """Room for the lines that the grouping writes, and the steps that do what they say."""
        loop, share = self._groups, native().shares.SHARE
        threads, worth = self._steps.threads, WORTH_A_SHARE if self._steps.more_follow else WORTH_A_THREAD
        most = SHARES_OF_A_BATCH * threads if threads > 1 else 1
        rows = np.maximum(np.arange(len(kinds)), 1)
        of_a_group = -(-np.where(kinds[:, loop.UNITS] > 0, kinds[:, loop.UNITS], rows) // kinds[:, loop.STEP])
        packs = int(np.ceil(pairs * (of_a_group / rows).max()))
        lines = self._scratch(pairs * pieces * native().shares.BEGIN)
        told[[loop.LINES, loop.MOST, loop.WORTH, loop.THREADS]] = lines.ctypes.data, most, worth, threads
        fields = (packs, loop.PACKS, loop.PACK_COUNT), (most + pairs * pieces, loop.TABLE, loop.TABLE_COUNT)
        for count, place, told_count in fields:
            table = self._scratch(count * share)
            told[place] = table.ctypes.data
            self._counts.append((told, told_count, self._steps.share(table.reshape(-1, share), told)))

    def _scratch(self, count: int) -> Array:
        """Numbers int64 that every grouping writes anew: where all layers have theirs."""
        return self._room.take(2 * count).numpy().view(np.int64)

    def _keep(self, numbers: Array) -> Array:
        self._kept.append(numbers)
        return numbers


_made: dict[tuple[int | bool, ...], tuple[Array, Array]] = {}


def _loops_for(
    steps: Steps, pieces: Sequence[Stored], rows: int, is_narrow: bool, gathers: bool
) -> tuple[Array, Array]:
    """How rows of a group are packed, see `groups.KIND`, and the loops for each piece, by the number of rows.

    `gathers`: they do not lie one behind the other. Made once for all layers whose pieces are alike.
    """
    first, loop = pieces[0], native().works.groups
    alike = (each for piece in pieces for each in (piece.places(piece.alone)[0], piece.is_rounded, piece.columns))
    key = rows, is_narrow, gathers, *alike
    if key not in _made:
        kinds = np.zeros((rows + 1, loop.KIND), np.int64)
        kinds[:, loop.STEP] = 1
        for count in range(1, rows + 1):
            packing = steps.packing(first, count, is_narrow)
            if packing is None and gathers and count > 1:
                packing = native().works.loop_for("copy"), 0, 4 * first.columns, 0, 1
            if packing is not None:
                kinds[count] = packing
        found = [[0, *(steps.loop_of(piece, count, is_narrow) for count in range(1, rows + 1))] for piece in pieces]
        _made[key] = kinds, np.array(found, np.int64)
    return _made[key]
