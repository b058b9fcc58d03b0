"""The shape and sizes of a model, part by part, from its config.json and the tables of its weight files alone.

config.json is read here without transformers' classes: sizes are asked for hundreds of models that are never built.
What decides whether a model can be used at all is said once, here, for `architecture` too.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import ModelError
from engine.model.checkpoint import Checkpoint
from engine.model.families.one_pass_families import carried_width
from engine.model.families.own_modules import experts_come_alone, multiplies_all_experts
from engine.model.families.state_families import DECAYS, HYBRID, STATE_FAMILIES, STATE_ONLY, may_keep
from engine.model.families.state_sizes import StateSizes, has_attention, state_sizes
from engine.model.families.text_tensors import FURTHER_TOKENS
from engine.model.formats.packed import PackedFormat, PackedWeight
from engine.model.safe_config import CHOSEN, EXPERTS
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say, shown

COUNTED_AS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
POSITIONS = ("max_position_embeddings", "n_positions")
LAYER_LISTS = ("layers", "h", "blocks")  # as networks call the list of their decoder layers
IN_LAYER = re.compile(rf"(?P<stack>(?:.*\.)?(?:{'|'.join(LAYER_LISTS)}))\.(?P<index>\d+)\.(?P<name>.+)", re.ASCII)
NOT_WEIGHTS = ("rotary_emb.inv_freq", *DECAYS)  # some checkpoints store what every model computes for itself

# What a token gives to the entries of compressed attention, as DeepSeek V4's network and checkpoints call it.
TO_ENTRIES = re.compile(r"\bcompressor\.(indexer\.)?(wkv|wgate|kv_proj|gate_proj)\.weight$")
OF_ENTRIES = re.compile(r"\bcompressor\.(indexer\.)?(ape|position_bias)$")  # a row for every token that one stands for
VALUES_ARE_KEYS = frozenset({"deepseek_v4"})  # by model_type
LATENTS = ("kv_a_proj_with_mqa.weight", "wkv_a_with_mqa.weight")
# Of what chooses the tokens that indexed attention reads, as networks and as MiniMax M3's checkpoints call it.
INDEXER = re.compile(r"\bindexer\.|\bindex_[qk]_(proj|norm)\.")
UNKNOWN = 4096  # tokens, for a kind of model whose configuration has no such number

SINKS = ("sinks", "attn_sink")

EXPERT = re.compile(r"(^|\.)(experts|block_sparse_moe\.(in|out)put_linear)\.")  # the second as Granite stores them

SCALE_BYTES = 2
KEY_GROUP = 32  # channels of a key in 8 bits that share a scale, see `engine.model.passes.slot_forms`

# As config.json calls the kinds of layers.
FULL, SLIDING, CHUNKED, INDEXED = "full_attention", "sliding_attention", "chunked_attention", "indexed_attention"
POOLED = "indexer.index_kpool_compress_gate"  # tells what a token counts for in a pool, and is kept of each
IN_BLOCKS = "minimax_m3_sparse"  # its indexer chooses blocks of tokens
INDEXED_KINDS = frozenset({INDEXED, IN_BLOCKS})
# Beside a window these attend to entries that stand for many tokens (DeepSeek V4); indexers choose among those of one.
COMPRESSED, MORE_COMPRESSED = "compressed_sparse_attention", "heavily_compressed_attention"
COMPRESSED_KINDS = frozenset({COMPRESSED, MORE_COMPRESSED})
WINDOWED_KINDS = frozenset({SLIDING, COMPRESSED})


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """One weight: its name (inside a layer: relative to the layer), its numbers' shape, their type as safetensors says.

    `nbytes` are those of the checkpoint. Of packed weights `dtype` is the format's name, and `format` the format.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    format: PackedFormat | None = None

    @property
    def elements(self) -> int:
        """Numbers in the weight."""
        return math.prod(self.shape)


def layers_and_rest(
    stored: Mapping[str, TensorInfo | PackedWeight], count: int
) -> tuple[list[list[StoredWeight]], list[StoredWeight]]:
    """The weights of each of the `count` decoder layers (0: however many there are), and those outside the layers.

    No layers at all means that no list of layers in the checkpoint holds so many.
    """
    stacks: dict[str, dict[int, list[StoredWeight]]] = {}
    rest: list[StoredWeight] = []
    for weight in _weights(stored):
        match = IN_LAYER.fullmatch(weight.name)
        if match is None:
            rest.append(weight)
        else:
            own = replace(weight, name=match["name"])
            stacks.setdefault(match["stack"], {}).setdefault(int(match["index"]), []).append(own)
    # An image encoder has a list of layers too, but a smaller one.
    whole = [stack for stack, layers in stacks.items() if _is_whole(layers, count or len(layers))]
    if not whole:
        return [], rest
    layers = stacks.pop(max(whole, key=lambda stack: _nbytes(stacks[stack])))
    rest += [weight for other in stacks.values() for layer in other.values() for weight in layer]
    # Layers behind the last one serve the prediction of further tokens; no loader reads them.
    return [layers[index] for index in range(count or len(layers))], rest


def _weights(stored: Mapping[str, TensorInfo | PackedWeight]) -> Iterator[StoredWeight]:
    for name, weight in stored.items():
        if name.endswith(NOT_WEIGHTS) or name.startswith(FURTHER_TOKENS):
            continue
        form = weight.format if isinstance(weight, PackedWeight) else None
        kind = weight.format.name if isinstance(weight, PackedWeight) else weight.dtype
        yield StoredWeight(name, weight.shape, kind, weight.nbytes, form)


def _is_whole(layers: Mapping[int, list[StoredWeight]], count: int) -> bool:
    return len(layers) >= count and all(index in layers for index in range(count))


def _nbytes(layers: Mapping[int, list[StoredWeight]]) -> int:
    return sum(weight.nbytes for layer in layers.values() for weight in layer)


def longest_sequence(stated: object, model_type: object) -> int:
    """In tokens: what config.json states as `max_position_embeddings`, else what transformers takes for this kind.

    A model without the number is loaded with the default of its configuration class, and its positions are made for
    that.
    """
    if type(stated) is int and stated > 0:
        return stated
    usual = _usual(model_type) if isinstance(model_type, str) else None
    return usual if type(usual) is int and usual > 0 else UNKNOWN


def _usual(model_type: str) -> Any:
    from transformers import CONFIG_MAPPING  # noqa: PLC0415  # takes seconds, and few models need it

    try:
        config = CONFIG_MAPPING[model_type]()
        return getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    except Exception:  # noqa: BLE001  # of any of some hundred classes: the model itself is refused elsewhere, in words
        return None


@dataclass(frozen=True, slots=True)
class LayerSizes:
    """One decoder layer.

    `weights` are all that it computes with; `stored_bytes` what they take in the checkpoint; `active_elements` the
    numbers that one token is multiplied with (of a mixture of experts, only its own experts'); `kv_width` the
    numbers that one token leaves in the cache, key and value together; `state` what is kept in place of them.
    `experts`, of which a token is routed to `chosen`: 0 where there are none, or none that come one by one.
    `kv_scales`: how many scales come with keys and values in 8 bits; `index_width`: the numbers of `kv_width` that
    an indexer keeps, which stay as they are.
    """

    weights: tuple[StoredWeight, ...]
    stored_bytes: int
    active_elements: int
    kv_width: int
    state: StateSizes | None = None
    experts: int = 0
    chosen: int = 0
    kv_scales: int = 0
    index_width: int = 0

    @property
    def elements(self) -> int:
        """Numbers in all weights."""
        return sum(weight.elements for weight in self.weights)

    def kv_bytes(self, value_bytes: int, packed: bool = False) -> int:
        """What one token leaves in the cache, in numbers of so many bytes; `packed`: keys and values in 8 bits."""
        if not packed:
            return self.kv_width * value_bytes
        return self.kv_width - self.index_width + SCALE_BYTES * self.kv_scales + self.index_width * value_bytes


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """A whole model.

    `rest_elements`: numbers outside the decoder layers, tied ones counted once. `widest`: the most numbers one token
    becomes inside a layer. `max_positions`: the longest sequence in tokens. `carried`: numbers that a prompt which is
    read in one pass takes by the token, see `carried_width`.
    `eager`: attention scores are written out, because no fused kernel computes them as the model means them, or those
    of an indexer are; `heads` are those of the one that has more. `block_choosers`: heads of an indexer that chooses
    blocks for groups of heads, whose attention is computed group by group.
    """

    name: str
    layers: tuple[LayerSizes, ...]
    rest_elements: int
    vocabulary: int
    hidden: int
    heads: int
    query_width: int
    widest: int
    eager: bool
    block_choosers: int
    max_positions: int
    carried: int

    @property
    def elements(self) -> int:
        """Numbers in the whole model."""
        return self.rest_elements + sum(layer.elements for layer in self.layers)

    @property
    def formats(self) -> tuple[str, ...]:
        """How the layers' packed weights are stored, by the formats' names, that of the most bytes first."""
        nbytes: Counter[str] = Counter()
        for layer in self.layers:
            for weight in filter(lambda weight: weight.format, layer.weights):
                nbytes[weight.dtype] += weight.nbytes
        return tuple(name for name, _ in nbytes.most_common())

    @property
    def kv_width(self) -> int:
        """Numbers that one token leaves in the caches of all layers; windows save none: all slots are kept."""
        return sum(layer.kv_width for layer in self.layers)


def model_sizes(checkpoint: Checkpoint) -> ModelSizes:
    """The sizes of a checkpoint, without reading any weight.

    Raises `ModelError` when config.json and weights disagree, or when the model is of a kind that cannot be sized:
    with layers that neither attend nor keep a known state.
    """
    text = _text_config(checkpoint.config)
    kinds = text.get("layer_types")
    kinds = [str(kind) for kind in kinds] if isinstance(kinds, list) else []
    require_attention(checkpoint.name, kinds, text.get("model_type"))
    layers, rest = layers_and_rest(checkpoint.weights, _number(text, *COUNTED_AS))
    if not layers:
        raise _disagreement(checkpoint.name, say("says {count} layers", count=text.get("num_hidden_layers")))
    if text.get("tie_word_embeddings", True) and any(_is_embedding(weight) for weight in rest):
        rest = [weight for weight in rest if not weight.name.endswith("lm_head.weight")]
    own = len(layers) - _number(text, "num_kv_shared_layers")  # layers behind these read the keys of earlier ones
    if own < 1:
        raise _disagreement(checkpoint.name, say("says that no layer has keys and values of its own"))
    others = _readers_of_others(checkpoint.name, text)
    sizes = tuple(
        _layer_sizes(checkpoint.name, layer, text, index < own and index not in others)
        for index, layer in enumerate(layers)
    )
    embedding = next((weight.shape for weight in rest if _is_embedding(weight)), None)
    vocabulary, hidden = embedding or (_number(text, "vocab_size"), _hidden(text))
    query_width = max(_query_rows(layer) or _heads(text) * _query_dim(text) for layer in layers)
    if all(layer.state and not layer.kv_width for layer in sizes):
        query_width = 1  # nothing attends
    if not (vocabulary and hidden and query_width):
        raise _disagreement(checkpoint.name, say("gives neither a vocabulary nor a width"))
    indexed = any(_is_of_indexer(weight) for layer in layers for weight in layer)
    of_groups = max(_block_choosers(layer) for layer in layers)
    index_heads = _number(text, "index_n_heads", "indexer_n_heads") if indexed and not of_groups else 0
    return ModelSizes(
        name=checkpoint.name,
        layers=sizes,
        rest_elements=sum(weight.elements for weight in rest),
        vocabulary=vocabulary,
        hidden=hidden,
        heads=max(_heads(text) or max(1, query_width // (_head_dim(text) or 128)), index_heads),
        query_width=query_width,
        widest=max(_widest(layer, text) for layer in layers),
        eager=bool(text.get("attn_logit_softcapping") or index_heads) or any(_has(layer, SINKS) for layer in layers),
        block_choosers=of_groups,
        max_positions=longest_sequence(_number(text, *POSITIONS), text.get("model_type")),
        carried=carried_width(text, hidden, _query_dim(text)),
    )


def require_attention(name: str, kinds: Iterable[str], family: object) -> None:
    """Raise `ModelError` if there are layers, by the names in config.json, whose memory of the past cannot branch."""
    found = set(kinds)
    known = {FULL, SLIDING, CHUNKED, *INDEXED_KINDS, *COMPRESSED_KINDS}
    if unknown := sorted(kind for kind in found - known if not may_keep(family, kind)):
        kinds = ", ".join(kind[:40].replace("_", " ") for kind in unknown)
        raise no_tree(name, say("it has {kinds} layers", kinds=kinds))
    if found and not found & (known | {HYBRID, "attention"}) and family not in STATE_ONLY:
        raise no_tree(name, say("none of its layers attends"))


def no_tree(name: str, reason: str) -> ModelError:
    """The refusal of a model that cannot hold a token tree; `reason` is a clause."""
    return ModelError(
        say("'{name}' cannot hold a token tree: {reason}.", name=name, reason=reason),
        say("Choose a decoder with full or sliding-window attention, such as Llama, Qwen, Mistral, Gemma or gpt-oss."),
    )


def _text_config(config: Mapping[str, object]) -> Mapping[str, object]:
    """The part of a config that describes the language model, and of DBRX how many experts there are."""
    text, of_experts = config.get("text_config"), config.get("ffn_config")
    text = {**config, **text} if isinstance(text, dict) else config
    if not isinstance(of_experts, dict):
        return text
    return {**{name: of_experts[name] for name in (*EXPERTS, *CHOSEN) if name in of_experts}, **text}


def _number(config: Mapping[str, object], *names: str) -> int:
    """The first of these entries that is a whole number above 0, of a list its largest; 0 if none is."""
    values = (each if isinstance(each := config.get(name), list) else [each] for name in names)
    return next((most for value in values if (most := max(_whole(value), default=0)) > 0), 0)


def _whole(values: Iterable[object]) -> list[int]:
    return [value for value in values if type(value) is int]


def _heads(text: Mapping[str, object]) -> int:
    return _number(text, "num_attention_heads", "n_head", "n_heads")


def _head_dim(text: Mapping[str, object]) -> int:
    return _number(text, "head_dim") or _hidden(text) // max(1, _heads(text))


def _hidden(text: Mapping[str, object]) -> int:
    return _number(text, "hidden_size", "n_embd", "d_model")


def _query_dim(text: Mapping[str, object]) -> int:
    """Of one head; latent attention puts a part with and a part without positions together."""
    without = _number(text, "qk_nope_head_dim")
    return without + _number(text, "qk_rope_head_dim") if without else _head_dim(text)


def _readers_of_others(name: str, text: Mapping[str, object]) -> set[object]:
    """The numbers of layers without keys and values of the text: those of an earlier layer's, or of pictures alone."""
    sources, crossing = text.get("kv_source_layers"), text.get("cross_attention_layers")  # Mistral Large 4, Mllama
    crossing = crossing if isinstance(crossing, list) else []
    if any(type(index) is not int for index in crossing):
        raise _disagreement(name, say("says {count} layers", count=shown(str(crossing))))
    found: set[object] = {*crossing}
    return found | {
        index for index, source in enumerate(sources if isinstance(sources, list) else ()) if source != index
    }


def _layer_sizes(name: str, weights: list[StoredWeight], text: Mapping[str, object], caches: bool) -> LayerSizes:
    elements = sum(weight.elements for weight in weights)
    routed = sum(weight.elements for weight in weights if is_expert(weight))
    experts = _number(text, *EXPERTS) or 1
    chosen = min(experts, _number(text, *CHOSEN) or experts)
    active = experts if multiplies_all_experts(text) else chosen
    has_experts = routed > 0 and experts_come_alone(text)
    shapes = {weight.name: weight.shape for weight in weights}
    hybrid = text.get("model_type") in STATE_FAMILIES
    state = state_sizes(shapes, text) if hybrid else None
    kv_width = _kv_width(weights, text) if caches and (has_attention(shapes) or not hybrid) else 0
    if caches and not kv_width and not hybrid:
        raise ModelError(
            say("'{name}' has a layer without keys and values.", name=name), say("Choose a decoder with attention.")
        )
    index_width = _index_width(weights, text)
    return LayerSizes(
        weights=tuple(weight for weight in weights if weight.elements),
        stored_bytes=sum(weight.nbytes for weight in weights),
        active_elements=elements - routed + -(-routed * active // experts),
        kv_width=kv_width + index_width,
        state=state,
        experts=experts if has_experts else 0,
        chosen=chosen if has_experts else 0,
        kv_scales=_kv_scales(kv_width, text),
        index_width=index_width,
    )


def key_group(width: int) -> int:
    """How many channels of a head's key share a scale: all of them, where their number is no multiple."""
    return KEY_GROUP if width % KEY_GROUP == 0 else max(1, width)


def _kv_scales(kv_width: int, text: Mapping[str, object]) -> int:
    """At most so many, where heads differ from layer to layer; of latents as if all of them were keys."""
    if _number(text, "kv_lora_rank") or text.get("model_type") in VALUES_ARE_KEYS:
        return -(-kv_width // KEY_GROUP)
    head, half = max(1, _head_dim(text)), kv_width // 2
    return -(-half // key_group(head)) - (-half // head)


def _kv_width(weights: list[StoredWeight], text: Mapping[str, object]) -> int:
    """From the projections where they are apart; from config.json where they are fused or kept as latents (MLA)."""
    weights = [weight for weight in weights if not _is_of_indexer(weight)]
    if text.get("model_type") in VALUES_ARE_KEYS:
        return _head_dim(text)
    if key := _rows(weights, "k_proj.weight"):
        return key + (_rows(weights, "v_proj.weight") or key)
    if latent := _number(text, "kv_lora_rank"):
        stored = [weight.shape[0] for weight in weights if weight.name.endswith(LATENTS) and len(weight.shape) == 2]
        return sum(stored) or latent + _number(text, "qk_rope_head_dim")  # LongCat-Flash attends twice in a layer
    shared = _number(text, "num_key_value_heads", "num_kv_heads") or _heads(text)
    if text.get("new_decoder_architecture") is True:  # Falcon, which keeps them once for each head that reads them
        shared = _heads(text)
    elif text.get("multi_query") is True:
        shared = 1
    return 2 * _head_dim(text) * shared


def _index_width(weights: list[StoredWeight], text: Mapping[str, object]) -> int:
    """Numbers in the key by which an indexer finds a token."""
    if given := sum(weight.shape[0] for weight in weights if TO_ENTRIES.search(weight.name)):
        return given + _entry_share(weights)
    if key := _rows(weights, "indexer.wk.weight") or _block_key(weights):
        return 2 * key if _has(weights, POOLED) else key
    return _number(text, "indexer_head_dim") if _has(weights, "indexer.index_qk_proj.weight") else 0


def _entry_share(weights: list[StoredWeight]) -> int:
    """A token's share of the entries of compressed attention; of those of an indexer it gives to two."""
    tables = [weight.shape for weight in weights if OF_ENTRIES.search(weight.name) and len(weight.shape) == 2]
    given = 2 if any(_is_of_indexer(weight) for weight in weights) else 1
    return -(-sum(width // given for _, width in tables) // max(1, tables[0][0])) if tables else 0


def _block_key(weights: list[StoredWeight]) -> int:
    return _rows(weights, "indexer.k_proj.weight") or _rows(weights, "index_k_proj.weight")


def _block_choosers(weights: list[StoredWeight]) -> int:
    """How many heads an indexer has that chooses blocks of tokens, all of which share a key."""
    key = _block_key(weights)
    queries = _rows(weights, "indexer.q_proj.weight") or _rows(weights, "index_q_proj.weight")
    return queries // key if key else 0


def _is_of_indexer(weight: StoredWeight) -> bool:
    return INDEXER.search(weight.name) is not None


def _widest(weights: list[StoredWeight], text: Mapping[str, object]) -> int:
    """The most numbers that one token becomes at once; a chosen expert adds to its neighbours."""
    dense = max((max(w.shape) for w in weights if len(w.shape) == 2 and not is_expert(w)), default=0)
    expert = max((max(w.shape[-2:]) for w in weights if len(w.shape) > 1 and is_expert(w)), default=0)
    return max(dense, expert * (_number(text, *CHOSEN) or 1))


def _is_embedding(weight: StoredWeight) -> bool:
    return weight.name.endswith("embed_tokens.weight") and len(weight.shape) == 2


def largest_matrix(layer: LayerSizes) -> int:
    """The numbers of a layer's largest matrix, of one expert, and of all that is no matrix of a linear module.

    The last are decoded beforehand, routers among them. Experts that come one by one are decoded one at a time, too.
    """
    experts = sum(weight.elements for weight in layer.weights if is_expert(weight))
    others = [weight for weight in layer.weights if not is_expert(weight)]
    matrices = [
        weight.elements
        for weight in others
        if len(weight.shape) == 2 and weight.name.endswith(".weight") and weight.shape[0] != layer.experts
    ]
    beforehand = sum(weight.elements for weight in others) - sum(matrices)
    return max(matrices, default=0) + beforehand + -(-experts // max(1, layer.experts))


def is_expert(weight: StoredWeight) -> bool:
    """Whether it is of the experts that are routed to; some families have them beside the MLP, not in it."""
    return EXPERT.search(weight.name) is not None


def _query_rows(layer: list[StoredWeight]) -> int:
    return _rows([weight for weight in layer if not _is_of_indexer(weight)], "q_proj.weight")


def _rows(weights: list[StoredWeight], suffix: str) -> int:
    return next((w.shape[0] for w in weights if w.name.endswith(suffix) and len(w.shape) == 2), 0)


def _has(weights: list[StoredWeight], suffix: str | tuple[str, ...]) -> bool:
    return any(weight.name.endswith(suffix) for weight in weights)


def _disagreement(name: str, what: str) -> ModelError:
    return ModelError(
        say("The config.json of '{name}' {fault}, which its weights do not hold.", name=name, fault=what),
        say("config.json and the weights do not belong together; get both again."),
    )
