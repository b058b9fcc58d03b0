"""How large a model is, part by part, told from its config.json and the tables of its weight files alone."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.errors import ModelError
from engine.model.checkpoint import Checkpoint
from engine.model.positions import longest_sequence
from engine.model.stored_weights import StoredWeight, layers_and_rest
from engine.protocol.sentences import say

ATTENTION_KINDS = {"full_attention", "sliding_attention"}


@dataclass(frozen=True, slots=True)
class LayerSizes:
    """One decoder layer.

    `weights` are all that it computes with; `stored_bytes` what they take in the checkpoint; `active_elements` the
    numbers that one token is multiplied with (of a mixture of experts, only its own experts'); `kv_width` the numbers
    that one token leaves in the cache, key and value together.
    """

    weights: tuple[StoredWeight, ...]
    stored_bytes: int
    active_elements: int
    kv_width: int

    @property
    def elements(self) -> int:
        """Numbers in all weights."""
        return sum(weight.elements for weight in self.weights)


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """A whole model.

    `rest_elements`: numbers outside the decoder layers, tied ones counted once. `widest`: the most numbers one token
    becomes inside a layer. `max_positions`: the longest sequence in tokens.
    `eager`: attention scores are written out, because no fused kernel computes them as the model means them.
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
    max_positions: int

    @property
    def elements(self) -> int:
        """Numbers in the whole model."""
        return self.rest_elements + sum(layer.elements for layer in self.layers)

    @property
    def kv_width(self) -> int:
        """Numbers that one token leaves in the caches of all layers; windows save none: all slots are kept."""
        return sum(layer.kv_width for layer in self.layers)


def model_sizes(checkpoint: Checkpoint) -> ModelSizes:
    """The sizes of a checkpoint, without reading any weight.

    Raises `ModelError` when config.json and weights disagree, or when the model is of a kind that cannot be sized:
    already quantised otherwise than in MXFP4, or without attention in every layer.
    """
    text = _text_config(checkpoint.config)
    _require_sizable(checkpoint, text)
    layers, rest = layers_and_rest(checkpoint.tensors, _number(text, "num_hidden_layers"))
    if not layers:
        raise _disagreement(checkpoint.name, say("says {count} layers", count=text.get("num_hidden_layers")))
    if text.get("tie_word_embeddings", True) and any(_is_embedding(weight) for weight in rest):
        rest = [weight for weight in rest if not weight.name.endswith("lm_head.weight")]
    sizes = tuple(_layer_sizes(checkpoint.name, layer, text) for layer in layers)
    embedding = next((weight.shape for weight in rest if _is_embedding(weight)), None)
    vocabulary, hidden = embedding or (_number(text, "vocab_size"), _number(text, "hidden_size"))
    query_width = max(_rows(layer, "q_proj.weight") or _heads(text) * _head_dim(text) for layer in layers)
    if not (vocabulary and hidden and query_width):
        raise _disagreement(checkpoint.name, say("gives neither a vocabulary nor a width"))
    return ModelSizes(
        name=checkpoint.name,
        layers=sizes,
        rest_elements=sum(weight.elements for weight in rest),
        vocabulary=vocabulary,
        hidden=hidden,
        heads=_heads(text) or max(1, query_width // (_head_dim(text) or 128)),
        query_width=query_width,
        widest=max(_widest(layer, text) for layer in layers),
        eager=bool(text.get("attn_logit_softcapping")) or any(_has(layer, "sinks") for layer in layers),
        max_positions=longest_sequence(text.get("max_position_embeddings"), text.get("model_type")),
    )


def _text_config(config: Mapping[str, object]) -> Mapping[str, object]:
    """The part of a config that describes the language model."""
    text = config.get("text_config")
    return {**config, **text} if isinstance(text, dict) else config


def _number(config: Mapping[str, object], *names: str) -> int:
    """The first of these entries that is a whole number above 0; 0 if none is."""
    values = (config.get(name) for name in names)
    return next((value for value in values if type(value) is int and value > 0), 0)


def _heads(text: Mapping[str, object]) -> int:
    return _number(text, "num_attention_heads")


def _head_dim(text: Mapping[str, object]) -> int:
    return _number(text, "head_dim") or _number(text, "hidden_size") // max(1, _heads(text))


def _require_sizable(checkpoint: Checkpoint, text: Mapping[str, object]) -> None:
    quantisation = text.get("quantization_config")
    method = quantisation.get("quant_method") if isinstance(quantisation, dict) else None
    if method not in (None, "mxfp4"):
        raise ModelError(
            say("'{name}' is stored already quantised ({method}).", name=checkpoint.name, method=str(method)[:40]),
            say("Choose its 16-bit version."),
        )
    kinds = text.get("layer_types")
    if unknown := sorted({str(kind) for kind in kinds} - ATTENTION_KINDS) if isinstance(kinds, list) else []:
        raise ModelError(
            say(
                "'{name}' cannot hold a token tree: {reason}.",
                name=checkpoint.name,
                reason=say("it has {kinds} layers", kinds=unknown[0][:40].replace("_", " ")),
            ),
            say(
                "Choose a decoder with full or sliding-window attention, such as Llama, Qwen, Mistral, Gemma "
                "or gpt-oss."
            ),
        )


def _layer_sizes(name: str, weights: list[StoredWeight], text: Mapping[str, object]) -> LayerSizes:
    elements = sum(weight.elements for weight in weights)
    routed = sum(weight.elements for weight in weights if _is_expert(weight))
    experts = _number(text, "num_local_experts", "num_experts", "n_routed_experts") or 1
    chosen = min(experts, _number(text, "num_experts_per_tok", "num_experts_per_token") or experts)
    kv_width = _kv_width(weights, text)
    if not kv_width:
        raise ModelError(
            say("'{name}' has a layer without keys and values.", name=name), say("Choose a decoder with attention.")
        )
    return LayerSizes(
        weights=tuple(weight for weight in weights if weight.elements),
        stored_bytes=sum(weight.nbytes for weight in weights),
        active_elements=elements - routed + -(-routed * chosen // experts),
        kv_width=kv_width,
    )


def _kv_width(weights: list[StoredWeight], text: Mapping[str, object]) -> int:
    """From the projections where they are apart; from config.json where they are fused or compressed (MLA)."""
    if key := _rows(weights, "k_proj.weight"):
        return key + (_rows(weights, "v_proj.weight") or key)
    if _number(text, "kv_lora_rank"):
        parts = sum(_number(text, part) for part in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        return _heads(text) * parts
    return 2 * _head_dim(text) * (_number(text, "num_key_value_heads") or _heads(text))


def _widest(weights: list[StoredWeight], text: Mapping[str, object]) -> int:
    """The most numbers that one token becomes at once; a chosen expert adds to its neighbours."""
    dense = max((max(w.shape) for w in weights if len(w.shape) == 2 and not _is_expert(w)), default=0)
    expert = max((max(w.shape[-2:]) for w in weights if len(w.shape) > 1 and _is_expert(w)), default=0)
    return max(dense, expert * (_number(text, "num_experts_per_tok", "num_experts_per_token") or 1))


def _is_embedding(weight: StoredWeight) -> bool:
    return weight.name.endswith("embed_tokens.weight") and len(weight.shape) == 2


def _is_expert(weight: StoredWeight) -> bool:
    return ".experts." in weight.name


def _rows(weights: list[StoredWeight], suffix: str) -> int:
    return next((w.shape[0] for w in weights if w.name.endswith(suffix) and len(w.shape) == 2), 0)


def _has(weights: list[StoredWeight], suffix: str) -> bool:
    return any(weight.name.endswith(suffix) for weight in weights)


def _disagreement(name: str, what: str) -> ModelError:
    return ModelError(
        say("The config.json of '{name}' {fault}, which its weights do not hold.", name=name, fault=what),
        say("config.json and the weights do not belong together; get both again."),
    )
