"""A whole layer of few rows in one call: norms, products, attention and what is added up, by compiled steps."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.model.passes import tree_attention
from engine.model.passes.light.attentions import KnownAttention, known_attention
from engine.model.passes.light.gated import is_gated, is_silu
from engine.model.passes.light.known_forwards import digest_of
from engine.model.passes.light.light_rows import are_light, are_turns, is_narrow_row, product_of
from engine.model.passes.light.norms import known_norm
from engine.model.products.layouts import UNIT
from engine.model.products.product import Product, Stored, Woven, native
from engine.model.products.programs import Room, RoomError, Steps

LAYERS = {
    "c78581f3ccc8b7d6": False,  # Llama's, and of most families
    "3f509d7ada2e754d": False,  # Mixtral: the same in other words
    "ac622908b98fe3f7": True,  # gpt-oss
}
"""By digest of `forward`, x + attention(norm(x)), then x + network(norm(x)): whether scores come with the latter."""

# Products of an attention's scores that loops compute no later than torch's kernel, with its call; with sinks, than
# transformers' own function, which has no kernel.
MOST_SCORED, MOST_WITH_SINKS = 1 << 22, 1 << 26
KEPT = 16  # programs of a layer: for each place that its weights stream to, with as many rows as the last trees had
WEIGHT = 2  # the field of the steps NORM and BIAS with the address of a parameter
SHARES_OF_HEADS = 4  # of an attention for each thread


def lighten_layer(layer: Any) -> bool:
    """Have a layer compute few rows in one call; False where it is none of those that are known."""
    with_scores = LAYERS.get(digest_of(type(layer).forward))
    if with_scores is None or not hasattr(layer, "self_attn"):
        return False
    known = known_attention(layer.self_attn)
    if known is None or layer.self_attn.head_dim % UNIT or not _are_norms_known(layer, known):
        return False
    own, light = type(layer).forward, _Layer(layer, known, with_scores)

    def forward(
        module: Any,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = False,
        position_embeddings: Any = None,
        **others: Any,
    ) -> Tensor:
        if module is layer:  # and no copy
            found = light.compute(hidden_states, attention_mask, past_key_values, position_embeddings)
            if found is not None:
                return found
        return own(  # type: ignore[no-any-return]
            module,
            hidden_states,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            use_cache=use_cache,
            position_embeddings=position_embeddings,
            **others,
        )

    layer.__dict__["forward"] = MethodType(forward, layer)
    return True


def _are_norms_known(layer: Any, known: KnownAttention) -> bool:
    norms = [layer.input_layernorm, layer.post_attention_layernorm]
    norms += [layer.self_attn.q_norm, layer.self_attn.k_norm] if known.has_norms else []
    return all(known_norm(norm) is not None for norm in norms)


@dataclass(slots=True)
class _Program:
    """The steps of a layer, and which of them are told other addresses in each pass."""

    steps: Steps
    products: Sequence[Product]  # by whose identities it is found: nothing else may have these
    room: Room
    query: Tensor
    key: Tensor
    value: Tensor
    attended: Tensor
    told: Any
    parameters: list[tuple[int, Any, str]]  # steps, and whose parameter of which name their field `WEIGHT` leads to
    turns: tuple[int, int]  # the steps that turn queries and keys
    kept: tuple[tuple[int, int], ...]  # the steps that write keys and values to be kept, and their fields for where to
    turned: int  # behind the last step that is needed where torch keeps them and attends
    dtype: torch.dtype  # in which they are kept
    attention: int
    added: int
    norm: int  # that of the network
    network: int | None  # what adds the gated network; None for another one, which is called with what the norm gives
    sinks: Any  # the attention whose sinks are told in each pass; None where there are none, or copies of them


class _Shared(threading.local):
    """What all layers of a pass are handed, as loops read it; made for the first of them."""

    turns: Any = None
    made: tuple[Tensor, ...] = ()
    mask: Tensor | None = None
    seen: Tensor | None = None

    def wide(self, embeddings: Any, width: int) -> tuple[Tensor, ...]:
        """Cosine and sine in float32 [1, rows, width], of embeddings of as many numbers or of half of them."""
        if self.turns is not embeddings:
            found = [each.float() for each in embeddings]
            found = [each if each.shape[2] == width else torch.cat((each, each), 2) for each in found]
            self.turns, self.made = embeddings, tuple(found)
        return self.made

    def sight(self, mask: Tensor) -> Tensor:
        """Which slots are seen, bool, by a mask that is added to scores."""
        if self.mask is not mask:
            self.mask, self.seen = mask, mask == 0
        assert self.seen is not None
        return self.seen


_shared = _Shared()


class _Layer:
    """One layer."""

    def __init__(self, layer: Any, known: KnownAttention, with_scores: bool) -> None:
        self._layer, self._attention, self._known, self._with_scores = layer, layer.self_attn, known, with_scores
        self._config, self._index = layer.self_attn.config, layer.self_attn.layer_idx
        network = layer.mlp
        self._is_gated = is_gated(network) and is_silu(network.act_fn)
        self._programs: OrderedDict[tuple[int, ...], _Program] = OrderedDict()

    @property
    def _linear(self) -> list[Any]:
        """The modules of its products; looked up, as a network may be given others."""
        attention, network = self._attention, self._layer.mlp
        found = [attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj]
        return [*found, network.gate_proj, network.up_proj, network.down_proj] if self._is_gated else found

    def compute(self, states: Tensor, mask: Tensor | None, cache: Any, embeddings: Any) -> Tensor | None:
        """What the layer makes of states [1, rows, width]; None where that is left to the library's own code."""
        attention, is_ours = self._attention, self._config._attn_implementation == tree_attention.NAME
        if not (is_narrow_row(states) or are_light(states)) or cache is None or not (is_ours or self._known.has_sinks):
            return None
        program, slots, width = self._program(states), cache.layers[self._index], attention.head_dim
        if program is None or not hasattr(slots, "claim"):
            return None
        if not are_turns(embeddings, states.shape[1], width // 2 if self._known.has_sinks else width):
            return None
        if mask is not None and mask.is_floating_point() and self._known.has_sinks:
            mask = _shared.sight(mask)
        if self._known.has_sinks and not self._takes_sinks(program, slots, mask):
            return None
        # The loops' numbers are float32: of a row of bfloat16 between them, too.
        x = states.float()
        found, normed = torch.empty_like(x), None if self._is_gated else torch.empty_like(x)
        self._tell(program, x, found, normed, *_shared.wide(embeddings, width))
        self._attend(program, slots, mask)
        program.steps.run(program.attention + 1, len(program.steps))
        found = found.to(states.dtype)
        if normed is not None:
            network = self._layer.mlp(normed.to(states.dtype))
            found += network[0] if self._with_scores else network
        return found

    def _tell(
        self, program: _Program, states: Tensor, found: Tensor, normed: Tensor | None, cosine: Tensor, sine: Tensor
    ) -> None:
        """Write the addresses of this pass."""
        lines, x, y = program.steps.program, states.data_ptr(), found.data_ptr()
        for step, module, name in program.parameters:
            lines[step, WEIGHT] = module._parameters[name].data_ptr()
        lines[0, 1] = lines[program.added, 1] = x
        lines[program.added, 3] = y
        lines[program.norm, 1] = y
        if normed is not None:
            lines[program.norm, 3] = normed.data_ptr()
        elif program.network is not None:
            lines[program.network, 1] = lines[program.network, 3] = y
        query, key = program.turns
        lines[query, 2] = lines[key, 2] = cosine.data_ptr()
        lines[query, 3] = lines[key, 3] = sine.data_ptr()

    def _attend(self, program: _Program, slots: Any, mask: Tensor | None) -> None:
        """The steps up to the attention, and that."""
        lines, dtype = program.steps.program, program.dtype
        heads, rows, width = program.query.shape[1:]
        if program.sinks is not None:
            program.told[native().attending.SINKS] = program.sinks._parameters["sinks"].data_ptr()
        claimed = slots.claim(rows)
        if claimed is None:
            if dtype == torch.float32:
                for (line, field), each in zip(program.kept, (program.key, program.value), strict=True):
                    lines[line, field : field + 2] = each.data_ptr(), rows * width
            program.steps.run(0, program.turned)
            keys, values = slots.update(program.key.to(dtype), program.value.to(dtype))
            self._attend_by_torch(program, keys, values, mask)
            return
        keys, values, begin = claimed
        step, start, size = keys.stride(1), slots.start, keys.itemsize
        for (line, field), each in zip(program.kept, (keys, values), strict=True):
            lines[line, field : field + 2] = each.data_ptr() + size * begin * width, step
        count = begin + rows - start
        if heads * rows * count * width > self._most_scored or not _is_sight(mask, rows, count):
            program.steps.run(0, program.attention)
            self._attend_by_torch(program, keys[:, :, start : begin + rows], values[:, :, start : begin + rows], mask)
            return
        told, loop = program.told, native().attending
        told[loop.KEYS], told[loop.VALUES] = (each.data_ptr() + size * start * width for each in (keys, values))
        told[loop.KEY_STEP] = told[loop.VALUE_STEP] = step
        told[loop.MASK], told[loop.MASK_STEP] = (0, 0) if mask is None else (mask.data_ptr(), mask.stride(2))
        told[loop.SLOTS] = count
        program.steps.run(0, program.attention + 1)

    @property
    def _most_scored(self) -> int:
        return MOST_WITH_SINKS if self._known.has_sinks else MOST_SCORED

    def _takes_sinks(self, program: _Program, slots: Any, mask: Tensor | None) -> bool:
        """Whether loops attend here, as torch's kernel knows no sinks."""
        heads, rows, width = program.query.shape[1:]
        count = slots.length + rows - slots.start
        return slots.may_be_claimed and heads * rows * count * width <= MOST_WITH_SINKS and _is_sight(mask, rows, count)

    def _attend_by_torch(self, program: _Program, keys: Tensor, values: Tensor, mask: Tensor | None) -> None:
        scaling, query = self._attention.scaling, program.query.to(keys.dtype)
        found, _ = tree_attention.tree_attention(self._attention, query, keys, values, mask, 0.0, scaling)
        program.attended.copy_(found.reshape(program.attended.shape))

    def _program(self, states: Tensor) -> _Program | None:
        """The one for these rows with the weights that are in place now; None where there is none."""
        rows = states.shape[1]
        products = [product_of(module, rows) for module in self._linear]
        if None in products or not rows:
            return None
        # A thread has a room of its own.
        key = (threading.get_ident(), rows, states.dtype == torch.float32, *map(id, products))
        program = self._programs.get(key)
        if program is not None and program.steps.is_as_allowed():
            self._programs.move_to_end(key)
            return program
        if not all(type(each.matrix if isinstance(each, Woven) else each) is Stored for each in products):
            return None
        if not _are_norms_known(self._layer, self._known):  # or a head has been given others
            return None
        program = None
        while program is None:
            try:
                program = self._laid_out([each for each in products if each is not None], states)
            except RoomError:
                continue  # in a larger one
            if program is None:
                return None
        self._programs[key] = program
        self._programs.move_to_end(key)
        while len(self._programs) > KEPT:
            self._programs.popitem(last=False)
        return program

    def _laid_out(self, products: Sequence[Any], states: Tensor) -> _Program | None:
        query, key, value, output, *network = products
        by_pairs = isinstance(query, Woven)
        others = (value, output, *network)
        is_bare = self._linear[0].bias is None and self._linear[1].bias is None and not self._known.has_norms
        if by_pairs != isinstance(key, Woven) or (by_pairs and not is_bare) or any(map(_is_woven, others)):
            return None
        if by_pairs:
            query, key = query.matrix, key.matrix
        builder = _Builder(self._layer, self._linear, self._known, states)
        return builder.build([query, key, value, output, *network], by_pairs, products)


def _is_sight(mask: Tensor | None, rows: int, slots: int) -> bool:
    """Whether loops read such a mask."""
    return mask is None or (mask.dtype == torch.bool and mask.shape == (1, 1, rows, slots) and mask.stride(3) == 1)


def _is_woven(product: Product) -> bool:
    return isinstance(product, Woven)


class _Builder:
    """Lays out a program."""

    def __init__(self, layer: Any, linear: Sequence[Any], known: KnownAttention, states: Tensor) -> None:
        self._layer, self._linear, self._known, self._states = layer, linear, known, states
        self._steps, self._room, self._loop = Steps(), Room(), native()
        self._parameters: list[tuple[int, Any, str]] = []

    def build(self, products: Sequence[Stored], by_pairs: bool, of: Sequence[Product]) -> _Program:
        """`products` in the order of the layer's linear modules, which were found in `of`. Raises `RoomError`."""
        attention, room, loop, steps = self._layer.self_attn, self._room, self._loop, self._steps
        _, rows, states_width = self._states.shape
        width = attention.head_dim
        inner = room.take(rows, states_width)
        self._norm(self._layer.input_layernorm, self._states, inner, rows)
        query, key, value = self._multiplied(0, products[:3], inner)
        heads, shared = query.shape[1] // width, key.shape[1] // width
        if self._known.has_norms:
            self._norm(attention.q_norm, query, query, rows * heads)
            self._norm(attention.k_norm, key, key, rows * shared)
        turned = room.take(1, heads, rows, width)
        keys, values = room.take(1, shared, rows, width), room.take(1, shared, rows, width)
        turns = (
            steps.add(loop.steps.TURN, query, 0, 0, turned, rows * width, rows, heads, width, by_pairs),
            steps.add(loop.steps.TURN, key, 0, 0, keys, rows * width, rows, shared, width, by_pairs),
        )
        placed = steps.add(loop.steps.PLACE, value, values, rows * width, rows, shared, width)
        kept, end = ((turns[1], 4), (placed, 2)), len(steps)
        if self._states.dtype != torch.float32:
            assert rows == 1, "heads of one row lie as those of a cache"
            kept = (
                (steps.add(loop.steps.NARROW, keys, 0, 0, shared, width), 2),
                (steps.add(loop.steps.NARROW, values, 0, 0, shared, width), 2),
            )
        attended = room.take(rows, heads * width)
        told, step = self._attended(turned, attended, heads, shared, rows, width)
        (output,) = self._multiplied(3, products[3:4], attended)
        added = steps.add(loop.steps.ADD, 0, output, 0, rows * states_width)
        norm = self._norm(self._layer.post_attention_layernorm, self._states, inner, rows)
        network = self._network(products[4:], inner) if len(products) > 4 else None
        steps.finish()
        return _Program(
            steps, of, room, turned, keys, values, attended, told, self._parameters, turns, kept, end,
            self._states.dtype, step, added, norm, network, self._sinks_of(attention, told),
        )  # fmt: skip

    def _norm(self, norm: Any, x: Tensor, y: Tensor, rows: int) -> int:
        known, weight = known_norm(norm), self._parameter(norm, "weight")
        assert known is not None, "layers whose norms are not known have no program"
        epsilon, more = known
        return self._steps.add(self._loop.steps.NORM, x, weight, y, rows, len(weight), float(epsilon), float(more))

    def _parameter(self, module: Any, name: str) -> Tensor:
        """A parameter for field `WEIGHT` of the next step; in other passes it may lie elsewhere."""
        parameter: Tensor = module._parameters[name]
        if self._states.dtype == torch.float32:
            self._parameters.append((len(self._steps), module, name))
            return parameter
        # A copy: what is in place may lie in memory of other layers by turns, but a layer's own numbers never change.
        return self._steps.keep(parameter.to(torch.float32, copy=True))

    def _multiplied(self, first: int, products: Sequence[Stored], x: Tensor) -> list[Tensor]:
        """The products of x with what the linear modules from `first` on multiply with."""
        rows = x.shape[0]
        found = [self._room.take(rows, product.rows) for product in products]
        self._steps.multiply(list(zip(products, found, strict=True)), x, self._room)
        for module, y in zip(self._linear[first:], found, strict=False):
            if module.bias is not None:
                self._steps.add(self._loop.steps.BIAS, y, self._parameter(module, "bias"), rows, y.shape[1])
        return found

    def _attended(self, query: Tensor, out: Tensor, heads: int, shared: int, rows: int, width: int) -> tuple[Any, int]:
        """What is told of the attention, and its step."""
        loop = self._loop.attending
        told = np.zeros(loop.FACTS, np.int64)
        told[[loop.QUERY, loop.OUT]] = query.data_ptr(), out.data_ptr()
        told[[loop.HEADS, loop.GROUP, loop.ROWS, loop.WIDTH]] = heads, heads // shared, rows, width
        told.view(np.float32)[2 * loop.SCALE] = self._layer.self_attn.scaling
        told[loop.NARROW] = self._states.dtype != torch.float32
        step = max(1, heads // (SHARES_OF_HEADS * self._steps.threads))
        table = np.zeros((-(-heads // step), self._loop.SHARE), np.int64)
        table[:, self._loop.LOOP], table[:, self._loop.MATRIX] = self._loop.attention_loop(), told.ctypes.data
        table[:, self._loop.BEGIN] = np.arange(0, heads, step)
        table[:, self._loop.END] = np.minimum(table[:, self._loop.BEGIN] + step, heads)
        return told, self._steps.share(table, told)

    def _sinks_of(self, attention: Any, told: Any) -> Any:
        if not self._known.has_sinks:
            return None
        if self._states.dtype == attention.sinks.dtype == torch.float32:
            return attention
        told[self._loop.attending.SINKS] = self._steps.keep(attention.sinks.to(torch.float32, copy=True)).data_ptr()
        return None

    def _network(self, products: Sequence[Stored], inner: Tensor) -> int:
        """Behind the norm; returns the last step."""
        rows, width = inner.shape
        gate, up = self._multiplied(4, products[:2], inner)
        self._steps.add(self._loop.steps.GATE, gate, up, gate.numel())
        (output,) = self._multiplied(6, products[2:], gate)
        return self._steps.add(self._loop.steps.ADD, 0, output, 0, rows * width)
