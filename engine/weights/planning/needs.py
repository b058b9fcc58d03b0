"""What a model needs besides its layers: its cache, and the buffers of one pass over a tree."""

from dataclasses import dataclass, replace
from typing import Literal

Codec = Literal["plain", "cast", "nf4", "int8", "packed"]
KvForm = Literal["computed", "8 bits"]
"""How keys and values are kept: in the number type of the network, or as codes with scales."""

PREFILL_ROWS = 1024  # tokens of a prompt that a layer reads at once
TREE_SLOTS = 1025  # cache slots behind the context at least: for the largest tree that is ever chosen automatically
DRAFT_REACH = 4  # nodes that the draft scores while it waits, as a multiple of the tree's
DRAFT_BATCH = 128  # nodes the draft expands in one pass
DRAFT_PASSES = 32  # the most passes of the draft for one tree
# Measured growth of the CPU allocator by drafting in 16 bits: bytes a node, for at most that many nodes.
GROWTH_PER_NODE, GROWTH_NODES = 1 << 19, 256
STATE_CHUNK = 64  # tokens that transformers' scans of a state look back on at once
STATE_SCORE_BYTES = 24  # what each pair of nodes takes in a scan: decays in float64 and 32, products and their sums
STATE_COPIES = 6  # of queries, keys and values in float32, in a scan
LEAST_SNAPSHOTS, MOST_SNAPSHOTS = 3, 16  # a turn's beginning and end, and one on the way; more where RAM is left over
EAGER_SCORE_BYTES = 12  # scores, their softmax in float32 and that in the weights' type; or three times float32


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer.

    `stored_bytes`: what it takes on SSD and in RAM, what moves over the links, and what it takes on the device as long
    as any layer is streamed; `expert_bytes`: the part of it that are its experts; `run_bytes`: its weights ready to
    run; `elements` and `active_elements`: its numbers, and those of them that one token is multiplied with;
    `copy_bytes`: a copy in 4 bits that drafts as long as the layer streams, 0 for none. `experts`, of which a token is
    routed to `chosen`: 0 where that is not known, or there are none. `matrix_bytes`: of its largest matrix ready to
    run, of one expert, and of all that is no matrix; 0 where that is not known.
    """

    stored_bytes: int
    run_bytes: int
    elements: int
    active_elements: int
    expert_bytes: int = 0
    copy_bytes: int = 0
    attends: bool = True
    experts: int = 0
    chosen: int = 0
    matrix_bytes: int = 0

    @property
    def expert_elements(self) -> float:
        """The numbers in all experts together, as every token is multiplied with the same share of them."""
        if not 0 < self.chosen < self.experts:
            return 0.0
        return (self.elements - self.active_elements) / (1 - self.chosen / self.experts)

    def distinct(self, rows: int) -> float:
        """How many experts so many rows are expected to use."""
        return expected_distinct(self.experts, self.chosen, rows)


def expected_distinct(experts: int, chosen: int, rows: int) -> float:
    """How many different experts `rows` tokens use that are routed independently, to `chosen` of them each."""
    return experts * (1 - (1 - chosen / experts) ** rows)


@dataclass(frozen=True, slots=True)
class StateNeeds:
    """What all layers that keep a state take together, in place of keys and values; nothing where there are none.

    `text_bytes`: what they know of a text, however long it is; `node_bytes`: what each pending node leaves.
    """

    text_bytes: int = 0
    node_bytes: int = 0

    def cache_bytes(self, nodes: int) -> int:
        """With so many pending nodes; what is known is there twice while a pass goes on, which might fail."""
        return 2 * self.text_bytes + nodes * self.node_bytes


@dataclass(frozen=True, slots=True)
class PassShape:
    """The widths, in numbers, that determine the buffers of one pass; `value_bytes` per number.

    `query_width` is that of all heads together, `widest` the most numbers a token becomes inside a layer. `eager`:
    attention scores are stored, otherwise those of `block_choosers` heads of an indexer. `routed_width`: of a mixture
    on a processor, what all experts of a token read and write in float32. `state_heads` and `state_width`: of a layer
    that keeps a state, keys and values of all heads together.
    """

    vocabulary: int
    hidden: int
    heads: int
    query_width: int
    widest: int
    value_bytes: int
    eager: bool = False
    block_choosers: int = 0
    state_heads: int = 0
    state_width: int = 0
    routed_width: int = 0

    def pass_bytes(
        self, rows: int, slots: int, logit_rows: int, float_copies: int = 0, nodes: int = STATE_CHUNK
    ) -> int:
        """The most bytes that a pass over `rows` tokens, seeing `slots` cache slots, holds besides weights and cache.

        The buffers inside a layer and the logits after all layers never exist together, so the larger counts. Of
        the logits there are `float_copies` in float32, besides those that the pass returns.
        `nodes`: those pending, where the pass is over a tree.
        """
        value = self.value_bytes
        masks = rows * slots * (1 + value)
        stream = rows * self.hidden * (4 * value + 8)  # the residual stream, its copies, and its norm in float32
        spread = slots * self.query_width * (2 * value + 4)  # keys and values for every head, and a kernel's copy
        scores = rows * slots * (self.heads if self.eager else self.block_choosers) * EAGER_SCORE_BYTES
        attention = 3 * rows * self.query_width * value + spread + scores
        scan = rows * (self.state_heads * nodes * STATE_SCORE_BYTES + STATE_COPIES * 4 * self.state_width)
        widest = 3 * rows * self.widest * value + 4 * rows * self.routed_width
        inside = max(attention, scan + self.widest * rows * value if scan else 0, widest)
        logits = logit_rows * self.vocabulary * (value + 4 * float_copies)
        return masks + stream + max(inside, logits)


@dataclass(frozen=True, slots=True)
class ModelNeeds:
    """A model in figures. `codec` names how its stored layers become weights, see `engine.weights.store.layout`.

    `rest_bytes`: embeddings, head and norms, which are always on the device; `kv_bytes`: what one token leaves in the
    caches of all layers; `state`: of the layers that keep one instead. `record_bytes`: of a head that drafts from its
    target's hidden states, those of one token. `stays_stored`: few rows are faster with layers as they are stored.
    `is_rounded`: what packed ones are multiplied with is rounded to 8 bits, where they are not decoded for good.
    `is_converted`: such layers do not lie in the files as they run. Those in memory are read into it so, and those that
    stream have to be prepared first.
    `carried_bytes`: of every token of a prompt, from the first layer to the last, where layers stream and each reads
    all of the prompt while it is there. `kv_form`: of keys and values; `kv_packed`: the numbers of one token that are
    unpacked for every pass. `encoding_bytes`: while a picture is encoded, before a pass; `feature_bytes`: what that
    leaves in RAM; 0 where none are read.
    """

    codec: Codec
    layers: tuple[Layer, ...]
    rest_bytes: int
    kv_bytes: int
    shape: PassShape
    state: StateNeeds = StateNeeds()
    record_bytes: int = 0
    stays_stored: bool = False
    is_rounded: bool = False
    is_converted: bool = False
    carried_bytes: int = 0
    kv_form: KvForm = "computed"
    kv_packed: int = 0
    encoding_bytes: int = 0
    feature_bytes: int = 0

    @property
    def is_packed(self) -> bool:
        """Whether layers that stream stay packed wherever they are, and are unpacked for every pass."""
        return self.codec in ("nf4", "int8", "packed")

    @property
    def stays_packed(self) -> bool:
        """Whether a checkpoint's packed weights stay so for good, where they are multiplied."""
        return self.codec == "packed" and self.stays_stored

    @property
    def may_be_ready(self) -> bool:
        """Whether layers may be decoded once and for good, where there is room for that.

        Not those that a person wants in fewer bits, nor those in files that may stay as they are stored there.
        """
        return self.codec not in ("nf4", "int8") and (self.is_converted or not self.stays_stored)

    def ready_bytes(self, layer: Layer) -> int:
        """What a layer takes that is loaded once and for good."""
        return layer.stored_bytes if self.stays_stored else layer.run_bytes

    @property
    def reading_bytes(self) -> int:
        """What a layer takes beside those that are ready while it is read: in the network's number type, at first."""
        return max(layer.run_bytes for layer in self.layers) if self.stays_stored else 0

    @property
    def drafts_itself(self) -> bool:
        """Whether copies of the layers that stream are the draft."""
        return any(layer.copy_bytes for layer in self.layers)

    def scratch_bytes(self, by_matrix: bool = False) -> int:
        """The one layer into which stored layers are decoded; none when they run as they are stored.

        `by_matrix`: matrices are decoded one at a time, each just before it is multiplied with.
        """
        if self.codec == "plain":
            return 0
        return max((by_matrix and layer.matrix_bytes) or layer.run_bytes for layer in self.layers)


def merged(draft: ModelNeeds, heads: ModelNeeds) -> ModelNeeds:
    """Of two that draft side by side, one after the other: the weights of both, and the buffers of the wider one."""
    widths = ("vocabulary", "hidden", "heads", "query_width", "widest", "value_bytes", "eager", "block_choosers")
    widest = {name: max(getattr(draft.shape, name), getattr(heads.shape, name)) for name in widths}
    return replace(
        draft,
        layers=(*draft.layers, *heads.layers),
        rest_bytes=draft.rest_bytes + heads.rest_bytes,
        kv_bytes=draft.kv_bytes + heads.kv_bytes,
        shape=replace(draft.shape, **widest),
        record_bytes=heads.record_bytes,
    )


@dataclass(frozen=True, slots=True)
class Workload:
    """What is to be done: `context_tokens` of prompt and answer, trees of `budget` drafted nodes (0: none drafted).

    `tokens_per_pass`: how many tokens one pass of the target is expected to add. `room`: drafted nodes that memory is
    kept for, where trees may become larger than `budget`. `levels` of such a tree, each a pass of the draft; 0 if that
    is not known.
    """

    context_tokens: int
    budget: int = 0
    tokens_per_pass: float = 1.0
    room: int = 0
    levels: float = 0.0

    @property
    def largest(self) -> int:
        """Drafted nodes of the largest tree that there is memory for."""
        return max(self.budget, self.room)

    @property
    def rows(self) -> int:
        """Tokens in one pass of the target."""
        return self.budget + 1

    @property
    def draft_nodes(self) -> int:
        """Nodes that the draft scores for one tree."""
        return DRAFT_REACH * self.largest + 1

    @property
    def slots(self) -> int:
        """The target's cache: context and tree. Both the plan and the allocation use this rule."""
        return self.context_tokens + max(TREE_SLOTS, self.largest + 1)

    @property
    def draft_slots(self) -> int:
        """The draft's cache: context and all nodes that it scores. A search that needs more makes it grow."""
        return self.context_tokens + max(TREE_SLOTS, self.draft_nodes)


@dataclass(frozen=True, slots=True)
class FixedBytes:
    """What is on the device before any layer of the target is; `snapshot`, of both models' states, is in RAM.

    `prompt`: what a pass takes beside `buffers` if layers stream, as it then reads a whole prompt. `pictures`: what
    reading them takes in RAM beside all that.
    """

    rest: int
    kv: int
    states: int
    buffers: int
    draft: int
    snapshot: int
    prompt: int = 0
    pictures: int = 0


def fixed_bytes(target: ModelNeeds, draft: ModelNeeds | None, work: Workload, on_gpu: bool = True) -> FixedBytes:
    """The target's rest, cache and pass, and all of the draft, which works during a pass of the target."""
    slots = work.draft_slots if target.drafts_itself else work.slots
    # In 16 bits the CPU library makes a kernel for every number of rows, and blocks fragment, until an answer ends.
    is_narrow = target.shape.value_bytes < 4
    growth = 0 if on_gpu or not is_narrow else GROWTH_PER_NODE * min(work.budget, GROWTH_NODES)
    nodes, tokens = work.largest + 1, work.context_tokens
    of_chunk = target.shape.pass_bytes(min(PREFILL_ROWS, tokens), slots, logit_rows=1)
    of_tree = target.shape.pass_bytes(nodes, slots, logit_rows=nodes, nodes=nodes) + growth
    # An encoder is done before the pass begins; on a processor it has its room. None is sure to find any on a GPU.
    of_encoder = max(0, target.encoding_bytes - (0 if on_gpu else max(of_chunk, of_tree)))
    of_prompt = of_chunk + (target.carried_bytes * tokens if tokens > PREFILL_ROWS else 0)
    return FixedBytes(
        rest=target.rest_bytes,
        kv=target.kv_bytes * slots,
        states=target.state.cache_bytes(work.draft_nodes if target.drafts_itself else work.largest + 1),
        buffers=max(of_chunk, of_tree),
        draft=_draft_bytes(draft, work) if draft else _self_draft_bytes(target, work),
        snapshot=target.state.text_bytes + (draft.state.text_bytes if draft else 0),
        prompt=max(of_prompt, of_tree) - max(of_chunk, of_tree),
        pictures=of_encoder + target.feature_bytes,
    )


def _self_draft_bytes(target: ModelNeeds, work: Workload) -> int:
    """What the target takes as its own draft, besides the copies: its passes, as both share the cache."""
    batch = min(DRAFT_BATCH, work.largest + 1)
    if not target.drafts_itself:
        return 0
    return _kept_bytes(target, work) + target.shape.pass_bytes(
        batch, work.draft_slots, logit_rows=batch, float_copies=1, nodes=work.draft_nodes
    )


def _draft_bytes(model: ModelNeeds, work: Workload) -> int:
    """A draft is never streamed; its logits become log-probabilities."""
    slots, batch = work.draft_slots, min(DRAFT_BATCH, work.largest + 1)
    passes = max(
        model.shape.pass_bytes(min(PREFILL_ROWS, work.context_tokens), slots, logit_rows=1),
        model.shape.pass_bytes(batch, slots, logit_rows=batch, float_copies=1, nodes=work.draft_nodes),
    )
    cache = (model.kv_bytes + model.record_bytes) * slots + model.state.cache_bytes(work.draft_nodes)
    layers = sum(layer.run_bytes for layer in model.layers)
    scratch = model.scratch_bytes(by_matrix=True) if model.stays_packed else 0
    return layers + scratch + model.rest_bytes + cache + passes + _kept_bytes(model, work)


def _kept_bytes(model: ModelNeeds, work: Workload) -> int:
    """What a sampled tree takes beyond the pass of its first `DRAFT_BATCH` nodes, in which it is counted already.

    Every distribution that was drawn from is kept in float32 until the target has verified it, at most one for every
    node, unless filters leave few tokens (`engine.speculation.methods.proposals`).
    """
    return 4 * model.shape.vocabulary * max(0, work.budget - DRAFT_BATCH)
