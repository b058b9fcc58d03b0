"""The experts of one row in few calls: their products, what lies between them and their sum, by compiled steps.

The steps are laid out once for so many experts of a layer; a pass only tells where the chosen ones lie.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.model.passes.light.experts import ExpertSteps, lay_out
from engine.model.products.grouped import Gate, Member
from engine.model.products.programs import Room, RoomError, Steps

KEPT = 8  # programs: for each thread, number of experts and layout


@dataclass(frozen=True, slots=True)
class _Program:
    """The steps of the experts, and the row that they read."""

    steps: Steps
    room: Room  # of its addresses
    x: Tensor
    experts: ExpertSteps


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
        lines, experts = program.steps.program, program.experts
        for (first, field), some in zip(experts.biases, biases, strict=False):
            lines[first : first + len(some), field] = [bias.data_ptr() for bias in some]
        found = torch.empty(1, experts.outputs.shape[1])
        factors = weights.float().contiguous()
        line = lines[experts.mix]
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
        experts = program.experts
        program.steps.run(0, experts.middle)
        if len(experts.inner) == 1:
            inner = experts.inner[0]
        elif up[0].is_woven:
            inner = torch.stack(list(experts.inner), -1).flatten(-2)
        else:
            inner = torch.cat(list(experts.inner), dim=1)
        experts.gated.copy_(between(inner.to(x.dtype)))
        program.steps.run(experts.behind, experts.biases[1][0])
        return experts.outputs

    def _begun(self, x: Tensor, up: Sequence[Member], down: Sequence[Member]) -> _Program:
        program = self._program(up, down, x.dtype == torch.bfloat16)
        program.x.copy_(x)
        program.experts.up.tell([piece for member in up for piece in member.pieces])
        program.experts.down.tell([piece for member in down for piece in member.pieces])
        return program

    def _program(self, up: Sequence[Member], down: Sequence[Member], is_narrow: bool) -> _Program:
        loops = (piece.places(piece.alone)[0] for member in (up[0], down[0]) for piece in member.pieces)
        key = (threading.get_ident(), len(up), is_narrow, *loops)
        program = self._programs.get(key)
        if program is not None and program.steps.is_as_allowed():
            return program
        if len(self._programs) >= KEPT:
            self._programs.clear()
        while True:
            try:
                self._programs[key] = program = self._laid_out(up, down, is_narrow)
            except RoomError:
                continue  # in a larger one
            return program

    def _laid_out(self, up: Sequence[Member], down: Sequence[Member], is_narrow: bool) -> _Program:
        steps, room = Steps(), Room()
        x = room.take(1, up[0].pieces[0].columns)
        experts = lay_out(steps, room, x, up, down, self._gate, self._has_bias, is_narrow)
        steps.finish()
        return _Program(steps, room, x, experts)
