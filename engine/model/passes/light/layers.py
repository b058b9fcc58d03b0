"""A whole layer of few rows in one call: norms, products, attention and what is added up, by compiled steps."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from types import MethodType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.model.passes import tree_attention
from engine.model.passes.light.attentions import KnownAttention, known_attention
from engine.model.passes.light.experts import StayingExperts
from engine.model.passes.light.gated import is_gated, is_silu
from engine.model.passes.light.known_forwards import digest_of
from engine.model.passes.light.layer_programs import LayerBuilder, LayerProgram
from engine.model.passes.light.light_rows import are_light, are_narrow, are_turns, product_of
from engine.model.passes.light.norms import known_norm
from engine.model.passes.light.sparse import KnownMixture, known_mixture
from engine.model.products.arranged import Woven
from engine.model.products.layouts import UNIT
from engine.model.products.product import Product, Stored
from engine.model.products.programs import RoomError

LAYERS = {
    "c78581f3ccc8b7d6": False,  # Llama's, and of most families
    "3f509d7ada2e754d": False,  # Mixtral: the same in other words
    "ac622908b98fe3f7": True,  # gpt-oss
}
"""By digest of `forward`, x + attention(norm(x)), then x + network(norm(x)): whether scores come with the latter."""

# Products of an attention's scores that loops compute no later than torch's kernel, with its call; with sinks, than
# transformers' own function, which has no kernel.
MOST_SCORED, MOST_WITH_SINKS = 1 << 22, 1 << 26
KEPT = 64  # programs of a layer: for each place that its weights stream to, and number of rows of a tree's levels


def lighten_layer(layer: Any) -> bool:
    """Have a layer compute few rows in one call; False where it is none of those that are known."""
    with_scores = LAYERS.get(digest_of(type(layer).forward))
    if with_scores is None or not hasattr(layer, "self_attn"):
        return False
    known = known_attention(layer.self_attn)
    if known is None or layer.self_attn.head_dim % UNIT or not _are_norms_known(layer, known):
        return False
    own, light = type(layer).forward, LightLayer(layer, known, with_scores)

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

    forward.light = light  # type: ignore[attr-defined]  # for `light_layer`
    layer.__dict__["forward"] = MethodType(forward, layer)
    return True


def light_layer(layer: Any) -> "LightLayer | None":
    """What computes few rows of a layer in one call, where `lighten_layer` found it known."""
    return getattr(layer.__dict__.get("forward"), "light", None)


def _are_norms_known(layer: Any, known: KnownAttention) -> bool:
    norms = [layer.input_layernorm, layer.post_attention_layernorm]
    norms += [layer.self_attn.q_norm, layer.self_attn.k_norm] if known.has_norms else []
    return all(known_norm(norm) is not None for norm in norms)


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


class Ready(NamedTuple):
    """A layer's program for the rows of a pass, and what it is handed beside them."""

    program: LayerProgram
    slots: Any
    mask: Tensor | None
    given: Tensor | None  # the mask as it was handed over
    turns: tuple[Tensor, ...]  # cosines and sines, float32 [1, rows, numbers of a head that are turned]
    attends: bool  # with loops; else torch's kernel does


class LightLayer:
    """One layer."""

    def __init__(self, layer: Any, known: KnownAttention, with_scores: bool) -> None:
        self._layer, self._attention, self._known, self._with_scores = layer, layer.self_attn, known, with_scores
        self._config, self._index = layer.self_attn.config, layer.self_attn.layer_idx
        network = layer.mlp
        self._is_gated = is_gated(network) and is_silu(network.act_fn)
        self._mixture = None if self._is_gated else known_mixture(network)
        self._programs: OrderedDict[tuple[int, ...], LayerProgram] = OrderedDict()

    @property
    def kind(self) -> tuple[object, ...]:
        """What all have in common that take the same rows."""
        return self._known, self._attention.head_dim, id(self._config)

    @property
    def numbers(self) -> int:
        """How many are multiplied with each row, but for experts."""
        return sum(each.in_features * each.out_features for each in self.linear)

    @property
    def experts(self) -> Any:
        """The module of a mixture's experts."""
        return None if self._mixture is None else self._mixture.experts

    @property
    def staying(self) -> StayingExperts | None:
        """The experts that stay where they are, if these do."""
        return None if self._mixture is None else self._mixture.staying

    @property
    def linear(self) -> list[Any]:
        """The modules of its products; looked up, as a network may be given others."""
        attention, network = self._attention, self._layer.mlp
        found = [attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj]
        return [*found, network.gate_proj, network.up_proj, network.down_proj] if self._is_gated else found

    @property
    def multiplied(self) -> list[Any]:
        """The same, and those of a network beside the experts."""
        return [*self.linear, *self._shared]

    @property
    def _shared(self) -> list[Any]:
        """The same of that network alone."""
        shared = self._mixture.shared if self._mixture is not None else None
        return [] if shared is None else [shared.gate_proj, shared.up_proj, shared.down_proj]

    def takes(self, states: Tensor, cache: Any, embeddings: Any) -> bool:
        """Whether these are rows that loops compute, states [1, rows, width], if there is a program for them."""
        is_ours = self._config._attn_implementation == tree_attention.NAME
        if not (are_narrow(states) or are_light(states)) or cache is None or not (is_ours or self._known.has_sinks):
            return False
        turned = self.turned(embeddings)
        return are_turns(embeddings, states.shape[1], turned // 2 if self._known.has_sinks else turned)

    def turned(self, embeddings: Any) -> int:
        """How many numbers of a head are turned."""
        width: int = embeddings[0].shape[-1] if self._known.is_partial else self._attention.head_dim
        return width

    def ready(
        self, program: LayerProgram, mask: Tensor | None, cache: Any, embeddings: Any, like: Ready | None = None
    ) -> Ready | None:
        """A program of this layer with what a pass hands over; None where that is left to the library's own code.

        `like`: what was found for another layer of this `kind` and as many rows, which is mostly the same.
        """
        slots = cache.layers[self._index]
        if like is not None and mask is like.given and _are_like(slots, like.slots):
            return like._replace(program=program, slots=slots)
        given = mask
        if not hasattr(slots, "claim"):
            return None
        if mask is not None and mask.is_floating_point() and self._known.has_sinks:
            mask = _shared.sight(mask)
        attends = self._attends(program, slots, mask)
        if self._known.has_sinks and not attends:  # torch's kernel knows none
            return None
        return Ready(program, slots, mask, given, _shared.wide(embeddings, self.turned(embeddings)), attends)

    def compute(self, states: Tensor, mask: Tensor | None, cache: Any, embeddings: Any) -> Tensor | None:
        """What the layer makes of states [1, rows, width]; None where that is left to the library's own code."""
        if not self.takes(states, cache, embeddings):
            return None
        program = self.program(states, self.turned(embeddings))
        ready = self.ready(program, mask, cache, embeddings) if program is not None else None
        if program is None or ready is None:
            return None
        # The loops' numbers are float32: of rows of bfloat16 between them, too.
        found, normed = torch.empty_like(states), torch.empty_like(states) if program.told.normed else None
        choice = torch.empty(states.shape[1], program.chosen, dtype=torch.int64) if program.chosen else None
        after, chosen = (0 if each is None else each.data_ptr() for each in (normed, choice))
        inputs = program.inputs
        assert inputs is not None, "as `LayerBuilder.build` left it"
        inputs.write((states.data_ptr(), found.data_ptr()), ready.turns, chosen, after)
        if ready.attends:
            inputs.claim_slots([ready.slots], [ready.mask])
            program.steps.run(0, len(program.steps))
        else:
            self._run_with_torch(ready)
        if normed is not None:
            found += self._network(program, normed, choice)
        elif program.mixed is not None and choice is not None:
            program.mixed.announce(choice)
        return found

    def _network(self, program: LayerProgram, normed: Tensor, choice: Tensor | None) -> Tensor:
        """What the layer's network makes of rows that steps did not hand to it; of one that is routed, its experts."""
        network, routed = self._layer.mlp, program.routed
        if routed is None or choice is None:
            made = network(normed)
            return made[0] if self._with_scores else made  # type: ignore[no-any-return]
        weights = routed.weights.to(torch.float32 if routed.known.is_scored else normed.dtype, copy=True)
        # What is shared stands in the room, which other layers write to: a draft's own, while experts are waited for.
        shared = program.shared.to(normed.dtype, copy=True) if program.shared is not None else None
        made = network.experts(normed[0], choice, weights)[None]
        return made if shared is None else made + shared  # type: ignore[no-any-return]

    def _attends(self, program: LayerProgram, slots: Any, mask: Tensor | None) -> bool:
        """Whether the loops attend."""
        if not slots.may_be_claimed:
            return False
        heads, rows, width = program.query.shape[1:]
        count = slots.length + rows - slots.start
        most = MOST_WITH_SINKS if self._known.has_sinks else MOST_SCORED
        is_much = heads * rows * count * width > most
        return (not is_much or _attends_in_pairs(program)) and _is_sight(mask, rows, count)

    def _run_with_torch(self, ready: Ready) -> None:
        """All steps but those that attend."""
        program, slots = ready.program, ready.slots
        if program.dtype == torch.float32:
            rows, width = program.query.shape[2:]
            for (line, field), each in zip(program.told.kept, (program.key, program.value), strict=True):
                program.steps.program[line, field : field + 2] = each.data_ptr(), rows * width
        program.steps.run(0, program.turned)
        keys, values = slots.update(program.key.to(program.dtype), program.value.to(program.dtype))
        self._go_on_by_torch(program, keys, values, ready.mask)

    def _go_on_by_torch(self, program: LayerProgram, keys: Tensor, values: Tensor, mask: Tensor | None) -> None:
        scaling, query = self._attention.scaling, program.query.to(keys.dtype)
        found, _ = tree_attention.tree_attention(self._attention, query, keys, values, mask, 0.0, scaling)
        program.attended.copy_(found.reshape(program.attended.shape))
        program.steps.run(program.attention + 1, len(program.steps))

    def program(self, states: Tensor, turned: int) -> LayerProgram | None:
        """The one for these rows with the weights that are in place now; None where there is none."""
        rows = states.shape[1]
        products = [product_of(module, rows) for module in self.linear]
        if None in products or not rows:
            return None
        mixture, staying = self._mixture, self.staying
        if staying is not None and rows > staying.most_rows:
            staying = None
        shared = [product_of(module, rows) for module in self._shared] if mixture is not None else []
        if any(type(each) is not Stored for each in shared):
            mixture, staying, shared = None, None, []
        products = [*products, *shared]
        # A thread has a room of its own.
        key = (threading.get_ident(), rows, turned, states.dtype == torch.float32, id(staying), *map(id, products))
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
                found = [each for each in products if each is not None]
                program = self._laid_out(found, states, turned, mixture, staying)
            except RoomError:
                continue  # in a larger one
            if program is None:
                return None
        self._programs[key] = program
        self._programs.move_to_end(key)
        while len(self._programs) > KEPT:
            self._programs.popitem(last=False)
        return program

    def _laid_out(
        self,
        products: Sequence[Any],
        states: Tensor,
        turned: int,
        mixture: KnownMixture | None,
        staying: StayingExperts | None,
    ) -> LayerProgram | None:
        query, key, value, output, *network = products
        by_pairs = isinstance(query, Woven)
        others = (value, output, *network)
        is_bare = self.linear[0].bias is None and self.linear[1].bias is None
        is_bare &= not (self._known.has_norms or self._known.is_partial)
        if by_pairs != isinstance(key, Woven) or (by_pairs and not is_bare) or any(map(_is_woven, others)):
            return None
        if by_pairs:
            query, key = query.matrix, key.matrix
        if query.rows % key.rows:  # loops have as many heads as any other read each head of keys
            return None
        linear = [*self.linear, *self._shared]
        builder = LayerBuilder(self._layer, linear, self._known, states, turned, mixture, staying)
        return builder.build([query, key, value, output, *network], by_pairs, products)


def _are_like(slots: Any, others: Any) -> bool:
    """Whether loops attend to slots if they do to others."""
    is_one = type(slots) is type(others) and slots.may_be_claimed and others.may_be_claimed
    return is_one and slots.length == others.length and slots.start == others.start


def _attends_in_pairs(program: LayerProgram) -> bool:
    """Whether loops attend sooner than torch's kernel, however much there is: see `Steps.attend`."""
    return program.query.shape[2] > 1 and program.dtype != torch.float32


def _is_sight(mask: Tensor | None, rows: int, slots: int) -> bool:
    """Whether loops read such a mask."""
    return mask is None or (mask.dtype == torch.bool and mask.shape == (1, 1, rows, slots) and mask.stride(3) == 1)


def _is_woven(product: Product) -> bool:
    return isinstance(product, Woven)
