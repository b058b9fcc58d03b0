"""Computes the experts of a mixture by the processor from their stored bytes, wherever in its memory these lie.

It follows the contract that transformers (5.x, `integrations/moe.py`) has for implementations of its experts, and that
its own `batched_mm` and `grouped_mm` keep: stacks `gate_up_proj` or `up_proj`, and `down_proj`, with biases or without,
straight or turned; between them the module's own `_apply_gate` or `act_fn`. Other modules are not followed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.integrations import moe

from engine.model.passes.light.experts import Stack, StayingExperts
from engine.model.passes.light.gated import is_silu
from engine.model.passes.light.known_forwards import digest_of
from engine.model.products.grouped import Gate, Group, Member, member_of, mixed, multiply
from engine.own_thread import in_all_threads
from engine.weights.codecs.codec import Decoder, codec_named
from engine.weights.codecs.rounding import Rounding
from engine.weights.streaming.experts.binding import Experts
from engine.weights.streaming.experts.one_row import OneRow

CONTRACT = ("has_gate", "has_bias", "is_transposed", "is_concatenated")
LATER = "has_post_expert_norm"  # not in transformers 5.17, whose experts have no such norm
CLAMPED_GATE = "70a470592abcb2ec"  # the digest of gpt-oss's gate
CACHED = 8  # products that are kept, times the experts of a layer: of its slots of a ring or a cache

Parts = Mapping[str, Tensor]
"""What is stored of one expert, by the names in the layer."""


class LastingParts(dict[str, Tensor]):
    """The same of an expert that stays where it is.

    Its matrices as members of a shared call are found only once, and its biases are decoded once, to float32.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.members: dict[str, Member | None] = {}
        self.biases: dict[str, Tensor] = {}


@dataclass(frozen=True, slots=True)
class Run:
    """Rows [begin, end) of pairs in the order of their experts, all of which are routed to `expert`."""

    expert: int
    begin: int
    end: int

    @property
    def rows(self) -> int:
        """How many."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Pairs:
    """A router's choice, int64 [rows, chosen], as pairs of a row and an expert, those of an expert together.

    `rows` and `order`, int64 [pairs]: of each the row of the pass, and its place in the flattened choice.
    """

    rows: Tensor
    order: Tensor
    runs: Sequence[Run]

    @classmethod
    def of(cls, choice: Tensor) -> "Pairs":
        """On the host; the order within an expert is that of the rows."""
        experts = choice.flatten().tolist()
        order = sorted(range(len(experts)), key=experts.__getitem__)
        runs, begin = [], 0
        for expert, same in groupby(order, experts.__getitem__):
            end = begin + sum(1 for _ in same)
            runs.append(Run(expert, begin, end))
            begin = end
        places = torch.tensor(order)
        return cls(places // choice.shape[1], places, runs)


def renumbered(runs: Sequence[Run]) -> list[Run]:
    """The same runs where their rows lie one behind the other, and no others between them."""
    ends = accumulate((run.rows for run in runs), initial=0)
    return [Run(run.expert, *places) for run, places in zip(runs, pairwise(ends), strict=True)]


@dataclass(frozen=True, slots=True)
class _Stack:
    """One of the module's stacks: what it is called in the layer, and a member's matrix [out, columns]."""

    name: str
    out: int
    columns: int
    turned: bool
    bias: str | None


@dataclass(slots=True)
class Use:
    """How many experts passes have used, and how many of these were multiplied as they are stored.

    Passes that take whole layers to an accelerator are not counted: nobody but the device knows what these used.
    """

    experts: int = 0
    in_place: int = 0


def is_followed(experts: Experts) -> bool:
    """Whether the contract says all that these experts compute."""
    module: Any = experts.module
    told = [getattr(module, name, None) for name in CONTRACT]
    if not all(isinstance(each, bool) for each in (*told, getattr(module, LATER, False))):
        return False
    if getattr(module, "_is_expert_parallel", False):
        return False
    up = "gate_up_proj" if module.has_gate else "up_proj"
    weights = {up, "down_proj"}
    wanted = weights | {f"{name}_bias" for name in weights} if module.has_bias else weights
    stacks = dict(module.named_parameters())
    acts = callable(getattr(module, "_apply_gate" if module.has_gate else "act_fn", None))
    return acts and stacks.keys() == wanted and all(stacks[name].ndim == 3 for name in weights)


def _gate_of(module: Any) -> Gate | None:
    """What lies between its stacks, where loops know it: what transformers has for experts that say nothing else."""
    usual = getattr(moe, "_default_apply_gate", None)
    own = getattr(type(module), "_apply_gate", None)
    if not module.has_gate or own is None:
        return None
    if own is usual and module.is_concatenated and is_silu(module.act_fn):
        return Gate()
    if digest_of(own) == CLAMPED_GATE and not module.is_concatenated:
        return Gate(float(module.limit), float(module.alpha))
    return None


class OneExpert:
    """Memory for decoded weights of one expert, shared by all layers: the next matrix of a shape takes its place."""

    def __init__(self) -> None:
        self._places: dict[tuple[tuple[int, ...], torch.dtype], Tensor] = {}

    def place(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A tensor of this shape, with whatever was written into it last."""
        if (shape, dtype) not in self._places:
            self._places[shape, dtype] = torch.empty(shape, dtype=dtype)
        return self._places[shape, dtype]


class FollowedExperts:
    """The experts of one layer. Those of few rows are multiplied as they are stored, those of many decoded before.

    Where rows are rounded to 8 bits, all are multiplied as they are stored, as far as there are loops for that. Which
    of the two depends on an expert's rows alone: a row's bits are the same wherever the bytes lie.
    """

    def __init__(
        self, experts: Experts, decoder: Decoder | None, few_rows: int, use: Use, scratch: OneExpert | None = None
    ) -> None:
        """`decoder`: None where stored bytes are the weights; `few_rows`: see `StreamOptions`.

        `scratch`: for what is decoded; layers that run one behind the other share it.
        """
        self._module: Any = experts.module
        self._decoder, self._few_rows, self.use = decoder or codec_named("plain"), few_rows, use
        self._as_stored, self._rounds = decoder is None, isinstance(decoder, Rounding)
        self._count, self._most_cached = experts.count, CACHED * experts.count
        self._up, self._down = self._stacks(experts)
        self._members: dict[tuple[int, ...], Member | None] = {}
        self._scratch = scratch or OneExpert()
        self._gate = _gate_of(self._module)
        if self._gate is not None and (self._up.bias is None) == bool(self._gate.limit):
            self._gate = None  # as nobody has it so far
        self._one_row = OneRow(self._gate, self._up.bias is not None)

    def __call__(self, hidden: Tensor, choice: Tensor, weights: Tensor, parts_of: Callable[[int], Parts]) -> Tensor:
        """What the module's forward gives: hidden [rows, width], choice and weights [rows, chosen], on the host."""
        if len(hidden) == 1 and (found := self._of_one_row(hidden, choice, weights, parts_of)) is not None:
            return found
        pairs = Pairs.of(choice)
        # One row is the same for all of its experts, and there is no need for copies.
        x = hidden[pairs.rows] if len(hidden) > 1 else hidden.expand(len(pairs.rows), -1)
        outputs = self._outputs(x, pairs.runs, parts_of)
        return mixed(outputs.float(), pairs.order, weights.float()).to(hidden.dtype)

    def in_portions(
        self, hidden: Tensor, choice: Tensor, weights: Tensor, portions: Iterable[Mapping[int, Parts]]
    ) -> Tensor:
        """The same, of experts that come in portions: each is computed before the next one is asked for.

        One row's are computed at once when all have come: that is over sooner than their calls.
        """
        if len(hidden) == 1:
            every = {expert: parts for some in portions for expert, parts in some.items()}
            return self(hidden, choice, weights, every.__getitem__)
        pairs = Pairs.of(choice)
        runs = {run.expert: run for run in pairs.runs}
        outputs = torch.empty(len(pairs.rows), self._down.out)
        for parts in portions:
            some = [runs[expert] for expert in parts]
            places = torch.cat([torch.arange(run.begin, run.end) for run in some])
            x = hidden[pairs.rows[places]]
            outputs[places] = self._outputs(x, renumbered(some), parts.__getitem__, pairs.runs).float()
        return mixed(outputs, pairs.order, weights.float()).to(hidden.dtype)

    def outputs(self, x: Tensor, runs: Sequence[Run], parts_of: Callable[[int], Parts]) -> Tensor:
        """Of pairs [pairs, width], the experts' outputs, neither weighted nor added up: [pairs, width], as x.

        `parts_of`: the stored tensors of an expert.
        """
        return self._outputs(x, runs, parts_of).to(x.dtype)

    def _outputs(
        self, x: Tensor, runs: Sequence[Run], parts_of: Callable[[int], Parts], of_pass: Sequence[Run] = ()
    ) -> Tensor:
        """The same, in float32 where sums of products are not rounded to x's type before they are added up.

        `of_pass`: all runs, where these are some of them: what is rounded does not depend on which came together.
        """
        rows = [run.rows for run in of_pass or runs]
        has_few, is_few = min(rows) <= self._few_rows, self._rounds or max(rows) <= self._few_rows
        parts = {run.expert: parts_of(run.expert) for run in runs}
        self.use.experts += len(runs)
        # Of bfloat16 whatever the other experts are: these may be computed elsewhere. Of float32 only where no row's
        # bits are those of the module.
        is_bfloat = x.dtype == torch.bfloat16
        gate = self._gate if is_bfloat or (is_few and all(self._is_stored(run, parts) for run in runs)) else None
        inner = self._between(self._product(self._up, x, runs, parts, has_few), gate, x.dtype)
        found, module = self._product(self._down, inner, runs, parts, has_few), self._module
        return module.post_expert_norm(found.to(x.dtype)) if getattr(module, LATER, False) else found

    def _between(self, inner: Tensor, gate: Gate | None, dtype: torch.dtype) -> Tensor:
        """What lies between the stacks, in this type; with a gate in the bits of `OneRow`, but for their rounding."""
        module = self._module
        if gate:
            return gate(inner.float().contiguous()).to(dtype)
        inner = inner.to(dtype)
        return module._apply_gate(inner) if module.has_gate else module.act_fn(inner)  # type: ignore[no-any-return]

    def _is_stored(self, run: Run, parts: Mapping[int, Parts]) -> bool:
        """Whether an expert's rows are multiplied with it as it is stored."""
        return all(self._as_it_lies(stack, run, parts) is not None for stack in (self._up, self._down))

    def _as_it_lies(self, stack: _Stack, run: Run, parts: Mapping[int, Parts]) -> Member | None:
        """The expert's matrix as it is stored, if so many rows are multiplied with it: few ones, or what is rounded."""
        if run.rows > self._few_rows and not self._rounds:
            return None
        member = self._member(stack, run.expert, parts[run.expert])
        if member is None or run.rows <= self._few_rows or all(piece.is_rounded for piece in member.pieces):
            return member
        return None

    def _of_one_row(
        self, hidden: Tensor, choice: Tensor, weights: Tensor, parts_of: Callable[[int], Parts]
    ) -> Tensor | None:
        """The same with few calls; None where an expert is not multiplied as it is stored."""
        if not self._few_rows or getattr(self._module, LATER, False):
            return None
        experts = choice[0].tolist()
        parts = {expert: parts_of(expert) for expert in experts}
        up, down = (
            [member for each in experts if (member := self._member(stack, each, parts[each])) is not None]
            for stack in (self._up, self._down)
        )
        if not len(up) == len(down) == len(experts):
            return None
        self._used(len(experts))
        in_turns = len(up[0].pieces) == 1 or up[0].is_woven
        if self._gate and (in_turns or not self._gate.limit):
            biases = self._biases([parts[expert] for expert in experts])
            return self._one_row.mixed(hidden, up, down, weights, biases).to(hidden.dtype)
        runs = [Run(expert, place, place + 1) for place, expert in enumerate(experts)]

        def between(inner: Tensor) -> Tensor:
            self._add_biases(self._up, inner, runs, parts)
            return self._between(inner, self._gate if inner.dtype == torch.float32 else None, inner.dtype)

        outputs = self._one_row.outputs(hidden, up, down, between)
        self._add_biases(self._down, outputs, runs, parts)
        return mixed(outputs, torch.arange(len(experts)), weights.float()).to(hidden.dtype)

    def staying(self, parts_of: Callable[[int], Parts], brings: Callable[..., Any]) -> StayingExperts | None:
        """All experts, where they stay in memory, and one row's are computed in steps; biases are decoded at once.

        `brings`: see `StayingExperts`.
        """
        gate = self._gate
        if not self._few_rows or gate is None or getattr(self._module, LATER, False):
            return None
        up, down = (self._whole(stack, parts_of) for stack in (self._up, self._down))
        if up is None or down is None or not (len(up.first.pieces) == 1 or up.first.is_woven or not gate.limit):
            return None
        return StayingExperts(gate, up, down, brings, self._used, self._few_rows)

    def _whole(self, stack: _Stack, parts_of: Callable[[int], Parts]) -> Stack | None:
        numbers = range(self._count if stack.bias is not None else 0)
        biases = [self._bias(stack, parts_of(expert)) for expert in numbers]
        return Stack.of(lambda expert: self._member(stack, expert, parts_of(expert)), self._count, biases)

    def _used(self, experts: int) -> None:
        self.use.experts += experts
        self.use.in_place += experts

    def _biases(self, parts: Sequence[Parts]) -> list[list[Tensor]]:
        """Of up and of down the biases of experts, if there are any."""
        return [
            [self._bias(stack, each) for each in parts] for stack in (self._up, self._down) if stack.bias is not None
        ]

    def _stacks(self, experts: Experts) -> Iterator[_Stack]:
        for leaf in ("gate_up_proj" if self._module.has_gate else "up_proj", "down_proj"):
            _, first, second = self._module._parameters[leaf].shape
            turned = self._module.is_transposed
            out, columns = (second, first) if turned else (first, second)
            bias = f"{experts.prefix}{leaf}_bias" if self._module.has_bias else None
            yield _Stack(experts.prefix + leaf, out, columns, turned, bias)

    def _product(
        self, stack: _Stack, x: Tensor, runs: Sequence[Run], parts: Mapping[int, Parts], has_few: bool
    ) -> Tensor:
        """Of x [pairs, columns]: [pairs, out], in float32 if any expert of the pass is multiplied as it is stored.

        `has_few`: any expert has as few rows.
        """
        few, many = [], []
        for run in runs:
            member = self._as_it_lies(stack, run, parts)
            if member is None:
                many.append(run)
            else:
                few.append(Group(member, run.begin, run.end))
        is_wide = has_few and self._member(stack, runs[0].expert, parts[runs[0].expert]) is not None
        found = multiply(few, x) if few else x.new_empty(len(x), stack.out, dtype=torch.float32 if is_wide else None)
        self.use.in_place += len(few) if stack is self._down else 0
        with in_all_threads():  # of a pass whose small operations one thread computes
            for run in many:
                weight = self._decoded(stack, parts[run.expert], x.dtype)
                found[run.begin : run.end] = functional.linear(x[run.begin : run.end], weight)
        self._add_biases(stack, found, runs, parts)
        return found

    def _add_biases(self, stack: _Stack, found: Tensor, runs: Sequence[Run], parts: Mapping[int, Parts]) -> None:
        if stack.bias is None:
            return
        biases = [self._bias(stack, parts[run.expert]) for run in runs]
        if len(runs) == len(found):  # a row each: all at once
            found += torch.stack(biases).to(found.dtype)
            return
        for run, bias in zip(runs, biases, strict=True):
            found[run.begin : run.end] += bias.to(found.dtype)

    def _member(self, stack: _Stack, expert: int, parts: Parts) -> Member | None:
        """The expert's matrix as it is stored; made once for every place where its bytes come to lie."""
        if not isinstance(parts, LastingParts):
            return self._member_at(stack, expert, parts)
        if stack.name not in parts.members:
            parts.members[stack.name] = self._member_of(stack, parts)
        return parts.members[stack.name]

    def _member_at(self, stack: _Stack, expert: int, parts: Parts) -> Member | None:
        own = [tensor.data_ptr() for name, tensor in parts.items() if name.startswith(stack.name)]
        key = (stack is self._down, expert, *own)
        if key not in self._members:
            if len(self._members) >= self._most_cached:
                self._members.clear()
            self._members[key] = self._member_of(stack, parts)
        return self._members[key]

    def _member_of(self, stack: _Stack, parts: Parts) -> Member | None:
        return member_of(self._decoder.product(parts, stack.name, (stack.out, stack.columns), stack.turned))

    def _decoded(self, stack: _Stack, parts: Parts, dtype: torch.dtype) -> Tensor:
        """The expert's matrix [out, columns]; the next one that is decoded takes its place."""
        if self._as_stored and parts[stack.name].dtype == dtype:
            weight = parts[stack.name]
        else:
            shape = (stack.columns, stack.out) if stack.turned else (stack.out, stack.columns)
            weight = self._scratch.place(shape, dtype)
            self._decoder.decode(parts, stack.name, weight)
        return weight.t() if stack.turned else weight

    def _bias(self, stack: _Stack, parts: Parts) -> Tensor:
        """The expert's bias, float32 [out]; of one that stays it is decoded once."""
        assert stack.bias is not None
        if (own := parts.get(stack.bias)) is not None and own.dtype == torch.float32 and own.is_contiguous():
            return own
        kept = parts.biases if isinstance(parts, LastingParts) else {}
        if stack.bias not in kept:
            kept[stack.bias] = bias = torch.empty(stack.out)
            if own is None:
                self._decoder.decode(parts, stack.bias, bias)
            else:
                bias.copy_(own)
        return kept[stack.bias]
