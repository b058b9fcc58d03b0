"""Encoders of pictures as Ollama's own converter writes them, in the same file as the language model.

In the terms of llama.cpp's converter, which all other modules expect. What is left out is what Ollama's compatibility
layer for llama.cpp takes for it.
https://github.com/ollama/ollama/tree/main/convert, https://github.com/ollama/ollama/tree/main/llama/compat
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from engine.gguf_header import ARCHITECTURE, twice
from engine.model.gguf.header import GgufHeader, GgufTensor
from engine.model.gguf.pictures.naming import CLIPPED, GEMMA4_MATRICES, PATCHES
from engine.model.gguf.settings import MAX_LIST, Settings

Entries = dict[str, object]
CLIP, UNPERMUTED = "clip", "clip.vision.attention.unpermuted"
CLIP_DATA, NUMBER_BYTES = "v.clamp_data", 4
PROJECTORS: Mapping[str, str] = MappingProxyType(
    {
        "gemma3": "gemma3",
        "gemma4": "gemma4v",
        "mistral3": "pixtral",
        "qwen25vl": "qwen2.5vl_merger",
        **dict.fromkeys(("qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe"), "qwen3vl_merger"),
    }
)
"""Which projector a model has, by what its file says is its architecture."""
_QWEN3 = {
    "v.pos_embed.": "v.position_embd.",
    "v.patch_embed.": "v.patch_embd.",
    "v.merger.norm.": "v.post_ln.",
    "v.merger.linear_fc1.": "mm.0.",
    "v.merger.linear_fc2.": "mm.2.",
    ".mlp.linear_fc1.": ".ffn_up.",
    ".mlp.linear_fc2.": ".ffn_down.",
    ".norm1.": ".ln1.",
    ".norm2.": ".ln2.",
    "v.deepstack_merger.": "v.deepstack.",
    ".linear_fc1.": ".fc1.",
    ".linear_fc2.": ".fc2.",
}
NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "gemma3": {
            "v.patch_embedding.": "v.patch_embd.",
            "v.position_embedding.": "v.position_embd.",
            "v.post_layernorm.": "v.post_ln.",
            ".layer_norm1.": ".ln1.",
            ".layer_norm2.": ".ln2.",
            ".attn_output.": ".attn_out.",
            ".mlp.fc1.": ".ffn_up.",
            ".mlp.fc2.": ".ffn_down.",
            "mm.mm_input_projection.": "mm.input_projection.",
            "mm.mm_soft_emb_norm.": "mm.soft_emb_norm.",
        },
        "mistral3": {
            "v.patch_conv.": "v.patch_embd.",
            "v.encoder_norm.": "v.pre_ln.",
            ".attn_output.": ".attn_out.",
            ".attn_norm.": ".ln1.",
            ".ffn_norm.": ".ln2.",
            "mm.linear_1.": "mm.1.",
            "mm.linear_2.": "mm.2.",
            "mm.patch_merger.merging_layer.": "mm.patch_merger.",
            "mm.norm.": "mm.input_norm.",
        },
        "qwen25vl": {
            "v.merger.ln_q.": "v.post_ln.",
            "v.merger.mlp.0.": "mm.0.",
            "v.merger.mlp.2.": "mm.2.",
            "v.patch_embd_0.weight": "v.patch_embd.weight",
            "v.patch_embd_1.weight": "v.patch_embd.weight.1",
        },
        **dict.fromkeys(("qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe"), _QWEN3),
    }
)
"""What it calls parts of names that are another one's in llama.cpp."""


def as_llama_cpp(header: GgufHeader, name: str) -> GgufHeader:
    """The header of an encoder's file as llama.cpp's converter would have written it; others stay as they are."""
    said = header.architecture
    if said not in PROJECTORS:
        return header
    tensors: dict[str, GgufTensor] = {}
    for tensor in _parts(header, _deeper(header, Settings(header, name))):
        called = tensor.name
        for own, usual in NAMES.get(said, {}).items():
            called = called.replace(own, usual)
        if called in tensors:
            raise twice(tensor.shard, called)
        tensors[called] = _whole(replace(tensor, name=called))
    own = f"{said}."
    entries: Entries = {
        f"{CLIP}.{key.removeprefix(own)}": value
        for key, value in header.metadata.items()
        if key.startswith(f"{own}vision.")
    }
    entries |= {ARCHITECTURE: CLIP, f"{CLIP}.projector_type": PROJECTORS[said]}
    entries |= _MORE.get(said, _nothing)(Settings(header, name))
    return GgufHeader(header.shards, MappingProxyType(entries), MappingProxyType(tensors))


def _parts(header: GgufHeader, deeper: tuple[int, ...]) -> Iterator[GgufTensor]:
    """The tensors, with what limits numbers one by one, and what is made for the first layers by the layers before."""
    for tensor in header.tensors.values():
        number = tensor.name.split(".")[2] if tensor.name.startswith(("v.deepstack.", "v.deepstack_merger.")) else ""
        if tensor.name == CLIP_DATA:
            yield from _limits(tensor)
        elif number.isdecimal() and int(number) < len(deeper):
            yield replace(tensor, name=tensor.name.replace(f".{number}.", f".{deeper[int(number)]}.", 1))
        else:
            yield tensor


def _deeper(header: GgufHeader, settings: Settings) -> tuple[int, ...]:
    listed = settings.several("vision.deepstack_visual_indexes")
    return tuple(layer for layer in listed if type(layer) is int and 0 <= layer < len(header.tensors))


def _limits(tensor: GgufTensor) -> Iterator[GgufTensor]:
    """Of every matrix of a layer, least and most of what it reads and gives; those of the last one are not used."""
    places = ((matrix, end) for matrix in GEMMA4_MATRICES for end in CLIPPED)
    names = [f"{matrix}.{end}" for matrix, end in places]
    count = math.prod(tensor.shape)
    for place in range(min(count, MAX_LIST * len(names)) - len(CLIPPED) if tensor.kind.name == "F32" else 0):
        layer, which = divmod(place, len(names))
        begin = tensor.begin + place * NUMBER_BYTES
        own = f"v.blk.{layer}.{names[which]}"
        yield replace(tensor, name=own, shape=(1,), begin=begin, end=begin + NUMBER_BYTES)


def _whole(tensor: GgufTensor) -> GgufTensor:
    """A convolution over two pictures that is one tensor has its first two dimensions apart again."""
    if tensor.name != PATCHES or len(tensor.shape) != 4 or tensor.shape[1] != 2 or tensor.shape[0] % 3:
        return tensor
    return replace(tensor, shape=(tensor.shape[0] // 3, 3, *tensor.shape[1:]))


def _gemma3(settings: Settings) -> Entries:
    rows = math.isqrt(settings.whole("mm.tokens_per_image", 256))
    patch = settings.whole("vision.patch_size")
    if not rows or not patch:
        raise settings.refused("mm.tokens_per_image")
    return {f"{CLIP}.vision.projector.scale_factor": settings.whole("vision.image_size") // patch // rows}


def _mistral3(settings: Settings) -> Entries:
    """Its queries and keys lie as in transformers."""
    return {
        f"{CLIP}.vision.spatial_merge_size": settings.whole("spatial_merge_size", 2),
        f"{CLIP}.rope.freq_base": settings.real("vision.rope.freq_base", 10_000.0),
        f"{CLIP}.use_silu": True,
        UNPERMUTED: True,
    }


def _qwen3(settings: Settings) -> Entries:
    return {
        f"{CLIP}.vision.image_min_pixels": settings.whole("vision.shortest_edge", 0),
        f"{CLIP}.vision.image_max_pixels": settings.whole("vision.longest_edge", 0),
    }


def _nothing(_settings: Settings) -> Entries:
    return {}


_MORE: Mapping[str, Callable[[Settings], Entries]] = {
    "gemma3": _gemma3,
    "mistral3": _mistral3,
    **dict.fromkeys(("qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe"), _qwen3),
}
