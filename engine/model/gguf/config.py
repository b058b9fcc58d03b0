"""The config of a network, as transformers has it in config.json, made of a GGUF file's metadata.

What the file does not say is what llama.cpp takes for this kind of network.
"""

from engine.errors import ModelError
from engine.model.gguf.header import GgufHeader
from engine.model.gguf.networks.dense_configs import DENSE as OF_DENSE
from engine.model.gguf.networks.dense_names import DENSE, FALCON_OF_TWO_NORMS
from engine.model.gguf.networks.gemma_configs import GEMMAS
from engine.model.gguf.networks.indexed_configs import INDEXED_CONFIGS
from engine.model.gguf.networks.indexed_names import INDEXED
from engine.model.gguf.networks.llama_configs import LLAMAS
from engine.model.gguf.networks.mixture_configs import MIXTURES as OF_MIXTURES
from engine.model.gguf.networks.mixture_names import MIXTURES
from engine.model.gguf.networks.names import OUTPUT, Family
from engine.model.gguf.networks.state_configs import STATES as OF_STATES
from engine.model.gguf.networks.state_names import BAMBA, STATES
from engine.model.gguf.rope import rope_of
from engine.model.gguf.settings import Settings, predicting_layers
from engine.protocol.sentences import say, shown

EMBEDDING = "token_embd.weight"
ROOT_MEAN_SQUARE = "rms_norm_eps"
MOST_LAYERS = 4096
LATENTS, COMPRESSING = "attention.kv_lora_rank", "attn_kv_a_mqa"  # of latent attention: its width, and what makes it
COUNTS_POSITIONS = "granitehybrid.rope.scaling.finetuned"
OWN = {**OF_DENSE, **GEMMAS, **LLAMAS, **OF_MIXTURES, **OF_STATES, **INDEXED_CONFIGS}
KNOWN = {**DENSE, **MIXTURES, **STATES, **INDEXED}
"""Every kind of network that is read, by `general.architecture`."""


def family_of(header: GgufHeader, name: str) -> Family:
    """The kind of network in the file of the model called `name`; raises `ModelError` for one that is not known."""
    family = _namesake(header) or KNOWN.get(header.architecture)
    if family is None:
        raise ModelError(
            say(
                "'{name}' has the architecture {kind}, which is not read from GGUF files.",
                name=name, kind=shown(header.architecture),
            ),
            say("Choose a version of the model in the safetensors format, or another model."),
        )  # fmt: skip
    return family


def _namesake(header: GgufHeader) -> Family | None:
    """Another network of the same name, as its weights or its entries tell."""
    if header.architecture == "falcon" and header.has(".attn_norm_2.weight"):
        return FALCON_OF_TWO_NORMS
    if header.architecture == "granitehybrid" and header.metadata.get(COUNTS_POSITIONS) is True:
        return BAMBA
    return None


def config_of(header: GgufHeader, name: str) -> dict[str, object]:
    """What config.json would say; raises `ModelError` where the file does not say enough."""
    family, settings = family_of(header, name), Settings(header, name)
    if settings.whole("block_count") > MOST_LAYERS:  # some configs have an entry for each
        raise settings.refused("block_count")
    heads = _query_heads(settings) if family.heads_differ else settings.whole("attention.head_count")
    width = settings.whole("embedding_length")
    if not width or (family.attends and not heads):
        raise settings.refused("attention.head_count")
    embedding = header.tensors.get(EMBEDDING)
    if embedding is None or len(embedding.shape) != 2:
        raise ModelError(
            say("'{name}' lacks the weights {tensor}.", name=name, tensor=EMBEDDING),
            say("Download the model again."),
        )
    kind_of_norm = "layer_norm_rms" if family.epsilon == ROOT_MEAN_SQUARE else "layer_norm"
    config: dict[str, object] = {
        "model_type": family.model_type,
        "vocab_size": embedding.shape[0],
        "hidden_size": width,
        "num_hidden_layers": settings.whole("block_count") - predicting_layers(settings),
        "max_position_embeddings": settings.whole("context_length"),
        family.epsilon: settings.real(f"attention.{kind_of_norm}_epsilon"),
        "tie_word_embeddings": OUTPUT not in header.tensors,
        "attention_bias": header.has(".attn_q.bias") or header.has(".attn_qkv.bias"),
        "mlp_bias": header.has(".ffn_up.bias"),
        **_token_ids(header),
    }
    if not family.layers_differ:
        config["intermediate_size"] = settings.whole("feed_forward_length", 0)
        config["num_key_value_heads"] = settings.whole("attention.head_count_kv", heads)
    if family.attends:
        if settings.has(LATENTS) and COMPRESSING not in family.names:
            raise settings.refused(LATENTS)
        config |= {"num_attention_heads": heads, **_heads(header, settings, heads, width, family.turns)}
    config |= OWN.get(settings.architecture, _nothing)(header, settings, config)
    settings.require_asked(family.attends and family.turns)
    return config


def _heads(header: GgufHeader, settings: Settings, heads: int, width: int, turns: bool) -> dict[str, object]:
    """The width of heads, and the rotary embedding; of latent attention, as it is before keys and values are split."""
    if settings.has(LATENTS):
        rope = rope_of(header, settings, settings.whole("rope.dimension_count")) if turns else {}
        return {"num_key_value_heads": heads, **rope}
    head_dim = settings.whole("attention.key_length", width // heads)
    values = settings.whole("attention.value_length", head_dim)
    if values != head_dim and settings.architecture != "mimo2":
        raise settings.refused("attention.value_length")
    rope = rope_of(header, settings, head_dim) if turns else {}
    return rope if settings.architecture == "falcon" else {"head_dim": head_dim, "v_head_dim": values, **rope}


def _query_heads(settings: Settings) -> int:
    """Of layers that see everything; of the first where the file does not tell which these are."""
    said, slides = settings.several("attention.head_count"), settings.several("attention.sliding_window_pattern")
    found = {count for count, has_window in zip(said, slides, strict=False) if not has_window} or {*said[:1]}
    heads = found.pop() if len(found) == 1 else None
    if type(heads) is not int:
        raise settings.refused("attention.head_count")
    return heads


def _token_ids(header: GgufHeader) -> dict[str, object]:
    found: dict[str, object] = {}
    for own, key in (("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")):
        value = header.metadata.get(f"tokenizer.ggml.{key}_token_id")
        found[own] = value if type(value) is int and value >= 0 else None
    return found


def _nothing(_header: GgufHeader, _settings: Settings, _config: dict[str, object]) -> dict[str, object]:
    return {}
