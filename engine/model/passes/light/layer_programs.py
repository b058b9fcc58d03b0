"""Lays out the steps of a whole layer for few rows, which `layers` runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.model.passes.light.attentions import KnownAttention
from engine.model.passes.light.experts import StayingExperts
from engine.model.passes.light.norms import known_norm
from engine.model.passes.light.program_inputs import ProgramInputs
from engine.model.passes.light.sparse import KnownMixture, Mixed, Routed, lay_out_experts, lay_out_router
from engine.model.products.product import Product, Stored, native
from engine.model.products.programs import Room, Steps

NETWORK = 4  # products of an attention, behind which those of the network come

Field = tuple[int, int]
"""A step, and one of its numbers."""


@dataclass(slots=True)
class Told:
    """The numbers that are told anew in each pass: where the rows come from, what the layer makes of them, and so on.

    `normed`: what its network is given, where the steps leave that to somebody else. `cosine` and `sine` stand in both
    `turns`; `kept`: where keys and values are written to, and behind it how far one head's are from the next one's.
    """

    states: list[Field] = field(default_factory=list)
    found: list[Field] = field(default_factory=list)
    normed: list[Field] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    kept: list[Field] = field(default_factory=list)
    parameters: list[tuple[int, Any, str]] = field(default_factory=list)  # of NORM and BIAS: whose, and its name


@dataclass(slots=True)
class LayerProgram:
    """The steps of a layer, and which of them are told other addresses in each pass."""

    steps: Steps
    products: Sequence[Product]  # by whose identities it is found: nothing else may have these
    room: Room
    dtype: torch.dtype  # of the rows, and of what is kept of them
    told: Told
    query: Tensor
    key: Tensor
    value: Tensor
    attended: Tensor
    of_attention: Any  # what is told of it, see `loops.attending`
    turned: int  # behind the last step that is needed where torch keeps keys and values, and attends
    attention: int
    routed: Routed | None = None  # of a mixture: what its router chose
    mixed: Mixed | None = None  # and what its experts make of it, where they stay in memory
    shared: Tensor | None = None  # what a network beside its experts makes of it
    sinks: Any = None  # the attention whose sinks are told in each pass; None where there are none, or copies of them
    inputs: ProgramInputs | None = None  # once the steps are finished

    def cell(self, step: int, number: int) -> int:
        """The address of one of a step's numbers, once they are finished."""
        return self.steps.program.ctypes.data + 8 * (native().steps.STEP * step + number)  # type: ignore[no-any-return]

    @property
    def chosen(self) -> int:
        """How many experts each row is routed to; 0 where that is not computed here."""
        return 0 if self.routed is None else self.routed.weights.shape[1]

    @property
    def pairs(self) -> int:
        """The same of all rows together."""
        return 0 if self.routed is None else self.routed.weights.numel()


class LayerBuilder:
    """Lays out a program."""

    def __init__(
        self,
        layer: Any,
        linear: Sequence[Any],
        known: KnownAttention,
        states: Tensor,
        turned: int,
        mixture: KnownMixture | None,
        staying: StayingExperts | None,
    ) -> None:
        """For as many rows as `states` has, so many numbers of whose heads are `turned`.

        `linear`: the modules of the layer's products.
        """
        self._layer, self._linear, self._known, self._states = layer, linear, known, states
        self._turned, self._mixture, self._staying = turned, mixture, staying
        self._is_wide = states.dtype == torch.float32
        self._steps, self._room, self._loop, self._told = Steps(), Room(), native(), Told()

    def build(self, products: Sequence[Stored], by_pairs: bool, of: Sequence[Product]) -> LayerProgram:
        """`products` in the order of the layer's linear modules, which were found in `of`. Raises `RoomError`."""
        loop, steps, told = self._loop.steps, self._steps, self._told
        _, rows, width = self._states.shape
        source, inner = self._source(), self._room.take(rows, width)
        self._norm(self._layer.input_layernorm, source, inner, rows)
        program = self._attention(products, by_pairs, of, inner)
        (output,) = self._multiplied(3, products[3:4], program.attended)
        found = self._states if self._is_wide else self._room.take(rows, width)  # told, or written at the end
        added = steps.add(loop.ADD, source, output, found, rows * width)
        norm = self._norm(self._layer.post_attention_layernorm, found, inner, rows)
        if self._is_wide:
            told.states.append((added, 1))
            told.found += [(added, 3), (norm, 1)]
        is_gated = self._mixture is None and len(products) > NETWORK
        network = self._network(products, inner) if is_gated else self._mixed(program, products, inner, found)
        if network is not None:
            last = steps.add(loop.ADD, found, network, found, rows * width)
            told.found += [(last, 1), (last, 3)] if self._is_wide else []
        else:
            told.normed.append(self._written(inner))
        if not self._is_wide:
            told.found.append(self._written(found))
        steps.finish()
        program.inputs = ProgramInputs([program])
        if program.mixed is not None:
            program.mixed.finish(steps.program)
        return program

    def _source(self) -> Tensor:
        """The rows as the steps read them."""
        if self._is_wide:
            self._told.states.append((0, 1))
            return self._states
        source = self._room.take(*self._states.shape[1:])
        self._told.states.append((self._steps.add(self._loop.steps.WIDEN, 0, source, source.numel()), 1))
        return source

    def _written(self, x: Tensor) -> Field:
        """Where the step that hands rows out is told to write them."""
        loop, (rows, width) = self._loop.steps, x.shape
        if self._is_wide:
            return self._steps.add(loop.PLACE, x, 0, rows * width, rows, 1, width), 2
        return self._steps.add(loop.NARROW, x, 0, 0, 1, rows * width), 2

    def _norm(self, norm: Any, x: Tensor, y: Tensor, rows: int) -> int:
        known, weight = known_norm(norm), self._parameter(norm, "weight")
        assert known is not None, "layers whose norms are not known have no program"
        epsilon, more = known
        return self._steps.add(self._loop.steps.NORM, x, weight, y, rows, len(weight), float(epsilon), float(more))

    def _parameter(self, module: Any, name: str) -> Tensor:
        """A parameter for field `WEIGHT` of the next step; in other passes it may lie elsewhere."""
        parameter: Tensor = module._parameters[name]
        if self._is_wide:
            self._told.parameters.append((len(self._steps), module, name))
            return parameter
        # A copy: what is in place may lie in memory of other layers by turns, but a layer's own numbers never change.
        return self._steps.keep(parameter.to(torch.float32, copy=True))

    def _multiplied(self, first: int, products: Sequence[Stored], x: Tensor) -> list[Tensor]:
        """The products of x with what the linear modules from `first` on multiply with."""
        rows = x.shape[0]
        found = [self._room.take(rows, product.rows) for product in products]
        self._steps.multiply(list(zip(products, found, strict=True)), x, self._room, is_narrow=not self._is_wide)
        for module, y in zip(self._linear[first:], found, strict=False):
            if module.bias is not None:
                self._steps.add(self._loop.steps.BIAS, y, self._parameter(module, "bias"), rows, y.shape[1])
        return found

    def _attention(
        self, products: Sequence[Stored], by_pairs: bool, of: Sequence[Product], inner: Tensor
    ) -> LayerProgram:
        """The steps from normed rows to what its heads attend to."""
        attention, room, loop, steps = self._layer.self_attn, self._room, self._loop.steps, self._steps
        rows, width = len(inner), attention.head_dim
        query, key, value = self._multiplied(0, products[:3], inner)
        heads, shared = query.shape[1] // width, key.shape[1] // width
        if self._known.has_norms:
            self._norm(attention.q_norm, query, query, rows * heads)
            self._norm(attention.k_norm, key, key, rows * shared)
        turned = room.take(1, heads, rows, width)
        keys, values = room.take(1, shared, rows, width), room.take(1, shared, rows, width)
        self._told.turns = [
            steps.add(loop.TURN, query, 0, 0, turned, rows * width, rows, heads, width, by_pairs, self._turned),
            steps.add(loop.TURN, key, 0, 0, keys, rows * width, rows, shared, width, by_pairs, self._turned),
        ]
        placed = steps.add(loop.PLACE, value, values, rows * width, rows, shared, width)
        end = len(steps)
        if self._is_wide:
            self._told.kept = [(self._told.turns[1], 4), (placed, 2)]
        else:
            self._told.kept = [(steps.add(loop.NARROW, each, 0, 0, shared, rows * width), 2) for each in (keys, values)]
        attended = room.take(rows, heads * width)
        facts, step = self._attended(turned, attended, heads, shared, rows, width)
        return LayerProgram(
            steps, of, room, self._states.dtype, self._told, turned, keys, values, attended, facts, end, step,
            sinks=self._sinks_of(attention, facts),
        )  # fmt: skip

    def _attended(self, query: Tensor, out: Tensor, heads: int, shared: int, rows: int, width: int) -> tuple[Any, int]:
        """What is told of the attention, and its step."""
        loop = self._loop.works.attending
        told = np.zeros(loop.FACTS, np.int64)
        told[[loop.QUERY, loop.OUT]] = query.data_ptr(), out.data_ptr()
        told[[loop.HEADS, loop.GROUP, loop.ROWS, loop.WIDTH]] = heads, heads // shared, rows, width
        told.view(np.float32)[2 * loop.SCALE] = self._layer.self_attn.scaling
        told[loop.NARROW] = not self._is_wide
        return told, self._steps.attend(told)

    def _sinks_of(self, attention: Any, told: Any) -> Any:
        if not self._known.has_sinks:
            return None
        if self._is_wide and attention.sinks.dtype == torch.float32:
            return attention
        told[self._loop.works.attending.SINKS] = self._steps.keep(
            attention.sinks.to(torch.float32, copy=True)
        ).data_ptr()
        return None

    def _network(self, products: Sequence[Stored], inner: Tensor) -> Tensor:
        """What a gated network makes of normed rows."""
        gate, up = self._multiplied(NETWORK, products[NETWORK : NETWORK + 2], inner)
        self._steps.gate(gate, up)
        return self._multiplied(NETWORK + 2, products[NETWORK + 2 :], gate)[0]

    def _mixed(self, program: LayerProgram, products: Sequence[Stored], inner: Tensor, found: Tensor) -> Tensor | None:
        """What the experts of a mixture make of rows; None where that, or even the choice, is left to its modules.

        In bfloat16 with the bits of experts that are handed rows of it, and add up such ones. `products`: behind those
        of the attention, of a network beside the experts.
        """
        router = self._mixture.product(self._states.dtype) if self._mixture is not None else None
        if router is None or self._mixture is None or not 0 < self._mixture.router.top_k <= router.rows:
            return None
        steps, loop = self._steps, self._loop.steps
        if not self._is_wide:
            steps.add(loop.ROUND, inner, inner.numel())
        rows = len(inner)
        logits = self._room.take(rows, router.rows)
        steps.multiply([(router, logits)], inner, self._room)
        if self._mixture.router._parameters.get("bias") is not None:
            steps.add(loop.BIAS, logits, self._parameter(self._mixture.router, "bias"), rows, router.rows)
        program.routed = lay_out_router(steps, self._room, inner, logits, router, self._mixture)
        if not (self._is_wide or self._mixture.is_scored):
            steps.add(loop.ROUND, program.routed.weights, program.routed.weights.numel())
        program.shared = self._network(products, inner) if self._mixture.shared is not None else None
        if self._staying is None or router.rows != len(self._staying.up.places):
            return None
        program.mixed = lay_out_experts(steps, self._room, program.routed, self._staying, is_narrow=not self._is_wide)
        self._round(program.mixed.found, found)
        if program.shared is not None:
            self._round(program.shared)
            steps.add(loop.ADD, program.mixed.found, program.shared, program.mixed.found, found.numel())
            self._round(program.mixed.found)
        return program.mixed.found

    def _round(self, *some: Tensor) -> None:
        """To what the network holds between its modules."""
        for each in () if self._is_wide else some:
            self._steps.add(self._loop.steps.ROUND, each, each.numel())
