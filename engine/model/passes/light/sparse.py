"""Mixtures whose few rows are routed and computed in steps: those whose router and network are known word for word."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from engine.model.passes.layer_hooks import together_of
from engine.model.passes.light.experts import ExpertSteps, StayingExperts, lay_out
from engine.model.passes.light.gated import is_gated, is_silu
from engine.model.passes.light.grouped_experts import GroupedExperts
from engine.model.passes.light.known_forwards import digest_of
from engine.model.products.layouts import Array
from engine.model.products.product import Stored, floats, native, plain
from engine.model.products.programs import Room, Steps

MIXTURES = {
    "47ef74fb77c63e71": "gate",  # Qwen3-MoE
    "3c0ccdab2e099a04": "gate",  # Mixtral
    "08f22e01750ac6fe": "router",  # gpt-oss
    "2cc4bc2e00297c0d": "gate",  # GLM-4.5; DeepSeek's is the same code, but routes in groups
}
"""By the digest of `forward`, experts(x, router(x)), with shared ones or without: how the router is called."""

ROUTERS = {
    "335eae24cba5d4d1": (True, None),  # Qwen's, OLMoE's: None for what the module says
    "0ceb9cc1fd33f955": (True, True),  # Mixtral's
    "b21eb97e9b5c06f5": (False, False),  # gpt-oss'
}
"""By the digest of `forward`: whether weights are parts of all logits' softmax, and are made to add up to 1."""

SCORED = "31569c3fdbe756b2"
"""The digest of `forward` of a router by scores of each expert alone: DeepSeek's and GLM-4.5's, float32 throughout."""

BIAS = "e_score_correction_bias"  # a buffer of such routers
PLACE = 4  # in what loops are told of a matrix that is one array: its address
STAYING = "staying_experts"
"""The attribute of a module of experts, in its `__dict__`, that gives its `StayingExperts`, or None for now."""


Cell = Callable[[int, int], int]
"""The address of one of the numbers of a step, see `LayerProgram.cell`."""


@dataclass(frozen=True, slots=True)
class KnownMixture:
    """A router, how it weighs, and the experts' module.

    `scaling`: of the weights, where the router `is_scored`; 0 for others. `shared`: a gated network beside the experts.
    """

    router: Any
    experts: Any
    of_all: bool
    normalised: bool
    scaling: float = 0.0
    shared: Any = None

    @property
    def is_scored(self) -> bool:
        """Whether experts are chosen by scores and biases, and weights stay float32; see `SCORED`."""
        return self.scaling != 0

    @property
    def bias(self) -> Tensor | None:
        """Of each expert, float32, where the router has that and loops can read it."""
        bias: Tensor | None = self.router._buffers.get(BIAS) if self.is_scored else None
        return bias if bias is not None and bias.dtype == torch.float32 and bias.is_contiguous() else None

    @property
    def staying(self) -> StayingExperts | None:
        """The experts that stay where they are, if these do."""
        find: Callable[[], StayingExperts | None] | None = self.experts.__dict__.get(STAYING)
        return find() if find is not None else None

    def product(self, dtype: torch.dtype) -> Stored | None:
        """What multiplies with the router's weight; None if it is none of `dtype` that loops read where it lies."""
        weight = self.router._parameters["weight"]
        if type(weight) not in {nn.Parameter, Tensor} or not (weight.dtype == dtype or self.is_scored):
            return None
        if self.is_scored and self.bias is None:
            return None
        return floats(weight.data) if weight.dtype == torch.float32 else plain(weight.data)


def known_mixture(network: Any) -> KnownMixture | None:
    """What is known of a network; None for others."""
    name = MIXTURES.get(digest_of(type(network).forward))
    router: Any = getattr(network, name, None) if name else None
    if router is None or "forward" in router.__dict__:
        return None
    digest, shared = digest_of(type(router).forward), getattr(network, "shared_experts", None)
    if shared is not None and not (is_gated(shared) and is_silu(shared.act_fn)):
        return None
    if digest == SCORED:
        if router.num_group != 1 or not router.routed_scaling_factor:
            return None
        scaling = float(router.routed_scaling_factor)
        return KnownMixture(router, network.experts, False, bool(router.norm_topk_prob), scaling, shared)
    if digest not in ROUTERS:
        return None
    of_all, normalised = ROUTERS[digest]
    is_normalised = router.norm_topk_prob if normalised is None else normalised
    return KnownMixture(router, network.experts, of_all, is_normalised, shared=shared)


@dataclass(frozen=True, slots=True)
class Routed:
    """What a program has of a router.

    `x`, the rows that are routed, and `weights` of the chosen experts: [rows, ...] in the room. `record`: what the loop
    is told of the router's weight. `choosing`: the steps and fields that are told where the choice is written to, and
    `biased` where the router's bias lies; `others`: addresses that are told the choice, too.
    """

    known: KnownMixture
    x: Tensor
    weights: Tensor
    record: Array
    choosing: list[tuple[int, int]]
    biased: tuple[tuple[int, int], ...] = ()
    others: list[int] = field(default_factory=list)

    def choice_cells(self, cell: Cell) -> list[int]:
        """Where it is told where to write the choice."""
        return [*(cell(*each) for each in self.choosing), *self.others]

    def sources(self, cell: Cell) -> list[tuple[tuple[dict[str, Any], str], int]]:
        """The router's weight and bias, by module's attribute and name, and where it is told where each lies."""
        router = self.known.router
        found = [((router._parameters, "weight"), self.record.ctypes.data + 8 * PLACE)]
        return found + [((router._buffers, BIAS), cell(*each)) for each in self.biased]


def lay_out_router(steps: Steps, room: Room, x: Tensor, logits: Tensor, router: Stored, known: KnownMixture) -> Routed:
    """Add the choice by the router's logits [rows, experts] of x [rows, width]. Raises `RoomError`."""
    rows, chosen, experts, loop = len(x), known.router.top_k, logits.shape[1], native().steps
    weights = room.take(rows, chosen)
    if known.is_scored:
        route = steps.add(
            loop.ROUTE_SCORED, logits, experts, chosen, 0, known.normalised, 0, weights, known.scaling, rows
        )
        return Routed(known, x, weights, router.told, [(route, 6)], ((route, 4),))
    route = steps.add(loop.ROUTE, logits, experts, chosen, known.of_all, known.normalised, 0, weights, 0, rows)
    return Routed(known, x, weights, router.told, [(route, 6)])


@dataclass(frozen=True, slots=True)
class Mixed:
    """What a program has of the experts of a mixture: their outputs as they are weighed and added up, [rows, width].

    `finish`: has the steps of a finished program tell its other steps.
    """

    routed: Routed
    staying: StayingExperts
    found: Tensor
    finish: Callable[[Array], None]

    @property
    def numbers(self) -> int:
        """How many of the chosen experts are multiplied with a row."""
        pieces = [*self.staying.up.first.pieces, *self.staying.down.first.pieces]
        return self.routed.weights.shape[1] * sum(piece.rows * piece.columns for piece in pieces)

    @property
    def may_wait(self) -> bool:
        """Whether whoever looks at the experts may be told later, of the choice alone: see `announce`."""
        brings, hooks = self.staying.brings, self.routed.known.experts._forward_pre_hooks.values()
        return all(hook is brings or together_of(hook) == "each" for hook in hooks)

    def announce(self, choice: Tensor) -> None:
        """Have whoever looks at the experts see what came to them [rows, chosen], as if they had been called.

        Where other layers have run since, rows and weights are no longer those.
        """
        experts, routed = self.routed.known.experts, self.routed
        for hook in experts._forward_pre_hooks.values():
            if hook is not self.staying.brings:
                hook(experts, (routed.x, choice, routed.weights))
        self.staying.used(choice.numel() if len(choice) == 1 else len(set(choice.flatten().tolist())))


def lay_out_experts(steps: Steps, room: Room, routed: Routed, staying: StayingExperts, is_narrow: bool) -> Mixed:
    """Add the experts that were chosen. `is_narrow`: see `experts.lay_out`. Raises `RoomError`.

    Once the program is finished, so must this be, by `Mixed.finish`.
    """
    if len(routed.x) > 1:
        grouped = GroupedExperts(steps, room, routed.weights, is_narrow)
        routed.others.append(grouped.choice_cell)
        return Mixed(routed, staying, grouped.lay_out(routed.x, staying), grouped.finish)
    chosen, has_bias = routed.weights.numel(), bool(staying.up.biases)
    tellers = tuple(steps.add(native().steps.TELL) for _ in range(4 if has_bias else 2))
    routed.choosing.extend((step, 1) for step in tellers)
    up, down = [staying.up.first] * chosen, [staying.down.first] * chosen
    laid = lay_out(steps, room, routed.x, up, down, staying.gate, has_bias, is_narrow)
    found = room.take(1, laid.outputs.shape[1])
    steps.change(laid.mix, 2, routed.weights, found)
    return Mixed(routed, staying, found, partial(_have_told, laid, staying, tellers))


def _have_told(laid: ExpertSteps, staying: StayingExperts, tellers: Sequence[int], program: Array) -> None:
    """Have the steps that tell others of the chosen experts, see `routing.tell`, know what and where."""
    loop, stacks = native(), (staying.up, staying.down)
    told = [
        (shares.owner, stack.places, shares.table.ctypes.data + 8 * loop.MATRIX, 8 * loop.shares.SHARE)
        for shares, stack in zip((laid.up, laid.down), stacks, strict=True)
    ]
    for (first, number), stack in zip(laid.biases, stacks, strict=True):
        if stack.biases:
            place = program.ctypes.data + 8 * (loop.steps.STEP * first + number)
            told.append((laid.numbers, stack.bias_places, place, 8 * loop.steps.STEP))
    for step, (owners, places, place, distance) in zip(tellers, told, strict=True):
        own, there = owners.ctypes.data, places.ctypes.data
        program[step, 2:8] = own, len(owners), places.shape[1], there, place, distance
