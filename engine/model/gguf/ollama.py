"""GGUF files as Ollama's own converter writes them, in the terms of llama.cpp's, which all other modules expect.

It keeps what reads pictures and sound in the same file, has names of its own for some networks, and says less: what is
left out is what its own runtime and its compatibility layer for llama.cpp take for it.
https://github.com/ollama/ollama/tree/main/convert, https://github.com/ollama/ollama/tree/main/llama/compat
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from engine.gguf_header import ARCHITECTURE, LazyArray, twice
from engine.model.gguf.chat_templates import TEMPLATES
from engine.model.gguf.header import GgufHeader, GgufTensor
from engine.model.gguf.networks.names import OUTPUT
from engine.model.gguf.settings import ALSO_CALLED, BASE, MAX_LIST, SLIDING_BASE, Settings, predicting_layers

Entries = dict[str, object]
ARCHITECTURES: Mapping[str, str] = MappingProxyType(
    {
        "gptoss": "gpt-oss",
        "qwen25vl": "qwen2vl",
        "olmo3": "olmo2",
        "glm4moelite": "deepseek2",
        "deepseekocr": "deepseek2-ocr",
        "nemotron_h_omni": "nemotron_h_moe",
        "mllama": "llama",
    }
)
"""What Ollama calls some networks."""
PICTURES = ("v.", "mm.")
PREDICTING = "mtp."  # layers that predict further tokens, by the names that they had before they got a block's
BESIDE_TEXT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("gemma3", "llama4", "mistral3", "mllama", "qwen25vl", "qwen3vl", "qwen3vlmoe"), PICTURES),
        "gemma4": (*PICTURES, "a.", "model.vision_tower."),
        "deepseekocr": (*PICTURES, "s."),
        **dict.fromkeys(("qwen35", "qwen35moe"), (*PICTURES, PREDICTING)),
        "nemotron_h_omni": (*PICTURES, "a.", PREDICTING),
        "nemotron_h_moe": (PREDICTING,),
    }
)
"""What names of tensors begin with that are no part of a language model, by what the file says is its architecture."""
SPLITTINGS: Mapping[str, str] = MappingProxyType({"gpt-oss": "gpt-4o", "mistral3": "tekken", "llama4": "llama4"})
"""How networks split text whose files say `default`: a rule that the converter did not know."""
ENTRIES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"gemma3n": {"attention.key_length": "head_dim", SLIDING_BASE: "rope.freq_base_local"}}
)
"""What it calls some entries of a network; `settings.ALSO_CALLED` has those that are its own in any network."""
TOKENS, SPLITTING, VOCABULARY_KIND = "tokenizer.ggml.tokens", "tokenizer.ggml.pre", "tokenizer.ggml.model"
TEMPLATE, ENDS = "tokenizer.chat_template", "tokenizer.ggml.eos_token_ids"  # the latter hardly anybody else writes
FOR_EACH_TOKEN = (TOKENS, "tokenizer.ggml.scores", "tokenizer.ggml.token_type")
EMBEDDING, EMBEDDING_OF_LAYERS = "token_embd.weight", "per_layer_token_embd.weight"
WITH_BOTH = ("gemma3n", "gemma4")  # networks whose layers have embeddings of tokens of their own
# Gemma 3: those who read pictures, by their layers, were made for texts eight times as long as others.
GEMMA3_OF_LONG_TEXTS, GEMMA3_LONG_FACTOR, GEMMA3_LONG = (34, 48, 62), 8.0, 131_072
GEMMA3_LEFT_OUT = {"attention.layer_norm_rms_epsilon": 1e-6, BASE: 1e6}
OWN_TO_GEMMA3 = (ALSO_CALLED[BASE], ALSO_CALLED[SLIDING_BASE], "mm.tokens_per_image", "vision.block_count")
WITH_CROSSING, BLOCK = "mllama", re.compile(r"blk\.(\d{1,5})\.", re.ASCII)
# Qwen3-Next, which since 2026 calls itself as those after it, but keeps two matrices in one, and splits text otherwise.
AS_NEXT, NEXT, OF_NEXT, SPLITS_AS, SPLITS_OF_NEXT = "qwen35moe", "qwen3next", ".ssm_ba.weight", "qwen35", "qwen2"
FULL_INTERVAL = 4  # layers of Qwen 3.5 of which one attends, if the file says no more


def as_llama_cpp(header: GgufHeader, name: str) -> GgufHeader:
    """The header of the model called `name` as llama.cpp's converter would have written it; others stay as they are.

    Raises `ModelError` for what it leaves out and nobody can know.
    """
    said = header.architecture
    meant = NEXT if said == AS_NEXT and header.has(OF_NEXT) else ARCHITECTURES.get(said, said)
    made = _renamed(header, meant, BESIDE_TEXT.get(said, ()))
    if said == WITH_CROSSING:
        made = _without_crossing(made, Settings(made, name))
    left_out = _LEFT_OUT.get(said, _nothing)(made, Settings(made, name))
    made = _with(made, {f"{made.architecture}.{key}": value for key, value in left_out.items()})
    made = _with(made, _tokenizer(made))
    is_own = said != made.architecture or len(made.tensors) < len(header.tensors) or ENDS in made.metadata
    if is_own and TOKENS in made.metadata and not made.metadata.get(TEMPLATE) and made.architecture in TEMPLATES:
        return _with(made, {TEMPLATE: TEMPLATES[made.architecture]})
    return made


def _with(header: GgufHeader, entries: Entries) -> GgufHeader:
    return replace(header, metadata=MappingProxyType({**header.metadata, **entries}))


def _renamed(header: GgufHeader, architecture: str, beside: tuple[str, ...]) -> GgufHeader:
    """With llama.cpp's names for the network and its entries, and without tensors whose names begin with `beside`."""
    said = f"{header.architecture}."
    metadata: Entries = {ARCHITECTURE: architecture}
    for key, value in header.metadata.items():
        if key != ARCHITECTURE:
            metadata[f"{architecture}.{key[len(said) :]}" if key.startswith(said) else key] = value
    for key, own in ENTRIES.get(architecture, {}).items():
        if (value := metadata.get(f"{architecture}.{own}")) is not None:
            metadata.setdefault(f"{architecture}.{key}", value)
    tensors = {own: tensor for own, tensor in header.tensors.items() if not own.startswith(beside)}
    return GgufHeader(header.shards, MappingProxyType(metadata), MappingProxyType(tensors))


def _without_crossing(header: GgufHeader, settings: Settings) -> GgufHeader:
    """Without the layers that attend to a picture, which text passes by, and the embeddings of its tokens."""
    count, crossing = settings.whole("block_count"), settings.several("attention.cross_attention_layers")
    places = {layer for layer in crossing if type(layer) is int and 0 <= layer < count}
    if not len(places) == len(crossing) < count <= MAX_LIST:
        raise settings.refused("attention.cross_attention_layers")
    kept = {layer: index for index, layer in enumerate(layer for layer in range(count) if layer not in places)}
    tensors: dict[str, GgufTensor] = {}
    for own, tensor in header.tensors.items():
        match = BLOCK.match(own)
        if match is None or int(match[1]) not in places:
            layer = match and kept.get(int(match[1]))
            called = own if match is None or layer is None else f"blk.{layer}.{own[match.end() :]}"
            if called in tensors:
                raise twice(tensor.shard, called)
            tensors[called] = replace(tensor, name=called)
    embedding, output = tensors.get(EMBEDDING), tensors.get(OUTPUT)
    if embedding and output and output.shape[0] < embedding.shape[0] and output.shape[1:] == embedding.shape[1:]:
        row = (embedding.end - embedding.begin) // embedding.shape[0]
        end = embedding.begin + row * output.shape[0]
        tensors[EMBEDDING] = replace(embedding, shape=output.shape, end=end)
    made = replace(header, tensors=MappingProxyType(tensors))
    return _with(made, {f"{settings.architecture}.block_count": len(kept)})


def _tokenizer(header: GgufHeader) -> Entries:
    """The entries of the tokenizer that differ: its rule or kind, and lists with tokens that have no embedding."""
    found: Entries = {}
    kind, splitting = header.metadata.get(VOCABULARY_KIND), header.metadata.get(SPLITTING, "default")
    if kind == "gpt2" and splitting in ("", "default") and header.architecture in SPLITTINGS:
        found[SPLITTING] = SPLITTINGS[header.architecture]
    if header.architecture == NEXT and splitting == SPLITS_AS:
        found[SPLITTING] = SPLITS_OF_NEXT
    if kind == "gpt2" and header.architecture == "gemma3n":  # it is taken for one where no tokenizer.model is there
        found[VOCABULARY_KIND] = "llama"
    names = (EMBEDDING, EMBEDDING_OF_LAYERS) if header.architecture in WITH_BOTH else (EMBEDDING,)
    rows = [header.tensors[own].shape[0] for own in names if own in header.tensors]
    for key in FOR_EACH_TOKEN if rows else ():
        listed = header.metadata.get(key)
        if isinstance(listed, LazyArray) and listed.count > min(rows):
            found[key] = listed.first(min(rows))
    return found


def _gemma3(_header: GgufHeader, settings: Settings) -> Entries:
    """Models that read pictures leave out all of this; those that do not say the bases by other names."""
    if not any(map(settings.has, OWN_TO_GEMMA3)):
        return {}
    found: Entries = {key: usual for key, usual in GEMMA3_LEFT_OUT.items() if not settings.has(key)}
    if settings.has("rope.scaling.type"):
        return found
    if settings.whole("block_count") in GEMMA3_OF_LONG_TEXTS:
        return found | {"rope.scaling.type": "linear", "rope.scaling.factor": GEMMA3_LONG_FACTOR}
    if settings.whole("context_length") >= GEMMA3_LONG:
        raise settings.refused("rope.scaling.factor")
    return found


def _gpt_oss(_header: GgufHeader, settings: Settings) -> Entries:
    return {} if settings.has("rope.scaling.type") else {"rope.scaling.type": "yarn"}


def _qwen3moe(header: GgufHeader, settings: Settings) -> Entries:
    gates = header.tensors.get("blk.0.ffn_gate_exps.weight")
    if settings.has("expert_feed_forward_length") or gates is None or len(gates.shape) != 3:
        return {}
    return {"expert_feed_forward_length": gates.shape[1]}


def _qwen35(_header: GgufHeader, settings: Settings) -> Entries:
    """Of key-value heads there may be a list, with none for layers that keep a state."""
    is_reordered = settings.architecture != "qwen3next"
    if settings.flag("ssm.v_head_reordered", default=is_reordered) != is_reordered:
        raise settings.refused("ssm.v_head_reordered")
    heads = [count for count in settings.several("attention.head_count_kv") if type(count) is int]
    if 0 not in heads:
        return {}
    every, most = settings.whole("full_attention_interval", FULL_INTERVAL) or 1, max(heads)
    layers = settings.whole("block_count") - predicting_layers(settings)
    if heads != [0 if (index + 1) % every else most for index in range(len(heads))] or len(heads) < layers:
        raise settings.refused("attention.head_count_kv")
    return {"attention.head_count_kv": most}


def _glm4moelite(_header: GgufHeader, settings: Settings) -> Entries:
    """What llama.cpp says of heads and of the latents that they are made of, it says the other way round."""
    return {f"{key}_mla": settings.whole(key) for key in ("attention.key_length", "attention.value_length")}


def _deepseekocr(header: GgufHeader, settings: Settings) -> Entries:
    """The widths of experts are those of the first layer that has some."""
    first = f"blk.{settings.whole('leading_dense_block_count', 0)}."
    experts, shared = (header.tensors.get(f"{first}{name}.weight") for name in ("ffn_down_exps", "ffn_down_shexp"))
    if experts is None or shared is None or shared.shape[-1] % experts.shape[-1]:
        raise settings.refused("expert_feed_forward_length")
    width, several = experts.shape[-1], shared.shape[-1] // experts.shape[-1]
    return {
        "expert_feed_forward_length": width,
        "expert_shared_count": several,
        "attention.layer_norm_rms_epsilon": settings.real("attention.layer_norm_rms_epsilon", 1e-6),
    }


def _nemotron(header: GgufHeader, settings: Settings) -> Entries:
    """The width of latents is that of the first layer that has some."""
    latents = (tensor for own, tensor in header.tensors.items() if own.endswith(".ffn_latent_in.weight"))
    first = next(latents, None)
    return {"moe_latent_size": first.shape[0]} if first and not settings.has("moe_latent_size") else {}


def _lfm2(header: GgufHeader, _settings: Settings) -> Entries:
    """The width that some files say is that before it is made a multiple of others."""
    gate = header.tensors.get("blk.0.ffn_gate.weight")
    return {"feed_forward_length": gate.shape[0]} if gate else {}


def _nothing(_header: GgufHeader, _settings: Settings) -> Entries:
    return {}


_LEFT_OUT: Mapping[str, Callable[[GgufHeader, Settings], Entries]] = {
    "gemma3": _gemma3,
    "gptoss": _gpt_oss,
    **dict.fromkeys(("qwen3moe", "qwen3vlmoe"), _qwen3moe),
    **dict.fromkeys(("qwen35", "qwen35moe", "qwen3next"), _qwen35),
    "glm4moelite": _glm4moelite,
    "deepseekocr": _deepseekocr,
    **dict.fromkeys(("nemotron_h_moe", "nemotron_h_omni"), _nemotron),
    "lfm2": _lfm2,
}
"""By what the file itself says is its architecture."""
