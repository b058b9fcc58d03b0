"""Each kind of encoder that is read, in transformers' terms: its config, its names, and how pictures are prepared.

What the file does not say is what was published with the models, or what llama.cpp takes for the kind.
https://github.com/ggml-org/llama.cpp/tree/master/tools/mtmd
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from engine.model.gguf.header import GgufHeader
from engine.model.gguf.pictures.naming import (
    DEEPER,
    GEMMA3,
    GEMMA4,
    GLM4V,
    INTERNVL,
    PIXTRAL,
    QWEN2,
    QWEN3,
    QWEN25,
    VISUAL,
    Names,
)
from engine.model.gguf.settings import Settings, shortest

PROJECTOR_KEYS = ("clip.projector_type", "clip.vision.projector_type")
QWEN_WINDOW = 112  # pixels of a side, which no file says
GEMMA3_SCALE, GEMMA4_SCALE, MERGED = 4, 3, 2  # patches of a side that become one row, where nothing is said
GEMMA4_ROWS = 280  # of one picture, at most
MOST_TILES = 12  # parts of a picture of InternVL
HALVES = (0.5, 0.5, 0.5)
MEANS, DEVIATIONS = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
# Pixels of a picture, at least and at most, as published.
QWEN2_PIXELS, QWEN3_PIXELS, GLM4V_PIXELS = (3136, 12_845_056), (65_536, 16_777_216), (12_544, 9_633_792)

Entries = dict[str, object]


@dataclass(frozen=True, slots=True)
class Encoder:
    """What an encoder is, as its file and the language model's config tell.

    `kind`: the model_type of the whole; `vision`: its vision_config; `others`: what else its config.json says; `own`
    and `whole`: see `engine.model.pictures.processors.Settings`; `tokens`: the special tokens that processors ask for,
    by the names that they have there; `text`: what its text_config says besides; `row`: the name of the entry for the
    token of a row; `ids`: other entries of config.json, by the names of tokens.
    """

    kind: str
    names: Names
    vision: Entries
    own: Entries
    tokens: Mapping[str, str]
    others: Entries = field(default_factory=dict)
    whole: Entries = field(default_factory=dict)
    text: Entries = field(default_factory=dict)
    row: str = "image_token_id"
    ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """An encoder's file, and the config of the language model that it belongs to."""

    header: GgufHeader
    settings: Settings
    text: Mapping[str, object]

    @property
    def sizes(self) -> Entries:
        """The sizes of a network of SigLIP's kind."""
        said = self.settings
        return {
            "hidden_size": said.whole("vision.embedding_length"),
            "intermediate_size": said.whole("vision.feed_forward_length", 0) or self.rows("v.blk.0.ffn_up.weight"),
            "num_hidden_layers": said.whole("vision.block_count"),
            "num_attention_heads": said.whole("vision.attention.head_count"),
            "patch_size": said.whole("vision.patch_size"),
        }

    @property
    def sizes_of_qwen(self) -> Entries:
        """The same by Qwen's names."""
        made = self.sizes
        return {
            "depth": made["num_hidden_layers"],
            "hidden_size": made["hidden_size"],
            "intermediate_size": made["intermediate_size"],
            "num_heads": made["num_attention_heads"],
            "patch_size": made["patch_size"],
            "spatial_merge_size": self.merged,
            "temporal_patch_size": 2,
            "out_hidden_size": self.text["hidden_size"],
        }

    def require_axes(self) -> None:
        """Refuse a language model that knows one position of a token alone, as its file says nothing of others."""
        rope = self.text.get("rope_parameters")
        if not isinstance(rope, dict) or "mrope_section" not in rope:
            raise self.settings.refused("rope.dimension_sections")

    @property
    def merged(self) -> int:
        """How many patches of a side become one row."""
        return self.settings.whole("vision.spatial_merge_size", MERGED)

    @property
    def activation(self) -> str:
        """The function behind the first of two matrices, as llama.cpp has it."""
        if self.settings.flag("use_gelu"):
            return "gelu"
        return "silu" if self.settings.flag("use_silu") else "quick_gelu"

    @property
    def image_size(self) -> int:
        """Pixels of a side."""
        return self.settings.whole("vision.image_size")

    def per_side(self, scale: int) -> int:
        """Rows for a side of a picture of that size, of which so many patches become one."""
        patch = self.settings.whole("vision.patch_size")
        if not patch or not scale or not (rows := self.image_size // patch // scale):
            raise self.settings.refused("vision.patch_size")
        return rows

    def has(self, tensor: str) -> bool:
        """Whether the file has a tensor of this whole name."""
        return tensor in self.header.tensors

    def rows(self, tensor: str) -> int:
        """The first dimension of a tensor; refuses a file without it."""
        found = self.header.tensors.get(tensor)
        if found is None:
            raise self.settings.without(tensor)
        return found.shape[0]

    def colours(self, means: tuple[float, ...] = MEANS, deviations: tuple[float, ...] = DEVIATIONS) -> Entries:
        """How colours are scaled; `means` and `deviations` where the file does not say it."""
        return {
            "image_mean": [*map(self._colour, self.settings.several("vision.image_mean") or means)],
            "image_std": [*map(self._colour, self.settings.several("vision.image_std") or deviations)],
        }

    def _colour(self, value: object) -> float:
        if not isinstance(value, float) or not math.isfinite(value):
            raise self.settings.refused("vision.image_mean")
        return shortest(value)

    def pixels(self, usual: tuple[int, int]) -> Entries:
        """How large a picture is shown, at least and at most."""
        least = self.settings.whole("vision.image_min_pixels", 0) or usual[0]
        most = self.settings.whole("vision.image_max_pixels", 0) or usual[1]
        return {"size": {"shortest_edge": least, "longest_edge": most}}


def _gemma3(told: Told) -> Encoder:
    rows = told.per_side(told.settings.whole("vision.projector.scale_factor", GEMMA3_SCALE)) ** 2
    vision = {
        **told.sizes,
        "model_type": "siglip_vision_model",
        "image_size": told.image_size,
        "layer_norm_eps": told.settings.real("vision.attention.layer_norm_epsilon"),
        "hidden_act": "gelu_pytorch_tanh",
        "vision_use_head": False,
    }
    tokens = {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    sides = {"height": told.image_size, "width": told.image_size}
    return Encoder(
        "gemma3", GEMMA3, vision, {"size": sides, **told.colours(HALVES, HALVES)}, tokens,
        others={"mm_tokens_per_image": rows}, whole={"image_seq_length": rows}, row="image_token_index",
    )  # fmt: skip


_QWEN_TOKENS = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>",
}
_QWEN_IDS = {f"{name}_id": name for name in ("video_token", "vision_start_token", "vision_end_token")}


def _qwen(
    kind: str, names: Names, vision: Entries, told: Told, pixels: tuple[int, int], colours: Entries | None = None
) -> Encoder:
    told.require_axes()
    own = {
        "image_processor_type": "Qwen2VLImageProcessor",
        **told.pixels(pixels),
        **(colours or told.colours()),
        "patch_size": vision["patch_size"],
        "merge_size": told.merged,
        "temporal_patch_size": 2,
    }
    return Encoder(kind, names, {**vision, "model_type": f"{kind}_vision"}, own, _QWEN_TOKENS, ids=_QWEN_IDS)


def _qwen2(told: Told) -> Encoder:
    sizes = told.sizes_of_qwen
    width, inner = told.settings.whole("vision.embedding_length"), told.rows("v.blk.0.ffn_up.weight")
    inner = max(inner, told.rows("v.blk.0.ffn_down.weight"))  # which old files call the other way round
    if not width or inner % width:
        raise told.settings.refused("vision.feed_forward_length")
    vision = {
        **{key: sizes[key] for key in ("depth", "num_heads", "patch_size", "spatial_merge_size")},
        "temporal_patch_size": 2,
        "embed_dim": width,
        "hidden_size": sizes["out_hidden_size"],
        "mlp_ratio": inner // width,
        "hidden_act": told.activation,
    }
    return _qwen("qwen2_vl", QWEN2, vision, told, QWEN2_PIXELS)


def _qwen25(told: Told) -> Encoder:
    """Every so many-th layer sees the whole picture, the others a window of it."""
    every, depth = told.settings.whole("vision.n_wa_pattern", 8), told.settings.whole("vision.block_count")
    if not every:
        raise told.settings.refused("vision.n_wa_pattern")
    said = told.settings.several("vision.fullatt_block_indexes")  # as Ollama's files have it
    listed = [index for index in said if type(index) is int and index < depth]
    vision = {
        **told.sizes_of_qwen,
        "hidden_act": "silu",
        "window_size": QWEN_WINDOW,
        "fullatt_block_indexes": listed or [*range(every - 1, min(depth, 4096), every)],
    }
    return _qwen("qwen2_5_vl", QWEN25, vision, told, QWEN2_PIXELS)


WHOLE_OF_QWEN3 = {
    "qwen3_vl_text": "qwen3_vl",
    "qwen3_vl_moe_text": "qwen3_vl_moe",
    "qwen3_5_text": "qwen3_5",
    "qwen3_5_moe_text": "qwen3_5_moe",
}


def _qwen3(told: Told) -> Encoder:
    """The layers whose output is also shown to the first ones of the language model are listed one by one."""
    kind = WHOLE_OF_QWEN3.get(str(told.text["model_type"]), "qwen3_vl")
    shown = [index for index, is_shown in enumerate(told.settings.several("vision.is_deepstack_layers")) if is_shown]
    shown = shown or [index for index in told.settings.several("vision.deepstack_visual_indexes") if type(index) is int]
    vision = {
        **told.sizes_of_qwen,
        "hidden_act": "gelu_pytorch_tanh",
        "num_position_embeddings": told.rows("v.position_embd.weight"),
        "deepstack_visual_indexes": shown,
    }
    deeper = {
        f"v.deepstack.{layer}.{name}": f"{VISUAL}deepstack_merger_list.{index}.{own}"
        for index, layer in enumerate(shown)
        for name, own in DEEPER.items()
    }
    names = replace(QWEN3, outside={**QWEN3.outside, **deeper})
    return _qwen(kind, names, vision, told, QWEN3_PIXELS, told.colours(HALVES, HALVES))


def _glm4v(told: Told) -> Encoder:
    told.require_axes()
    vision = {
        **told.sizes_of_qwen,
        "model_type": "glm4v_moe_vision",
        "image_size": told.image_size,
        "hidden_act": "silu",
        "rms_norm_eps": told.settings.real("vision.attention.layer_norm_epsilon", 1e-5),
        "attention_bias": told.has("v.blk.0.attn_qkv.bias"),
    }
    own = {
        "image_processor_type": "Glm4vImageProcessor",
        **told.pixels(GLM4V_PIXELS),
        **told.colours(),
        "patch_size": vision["patch_size"],
        "merge_size": told.merged,
        "temporal_patch_size": 2,
    }
    tokens = {
        "image_token": "<|image|>",
        "video_token": "<|video|>",
        "image_start_token": "<|begin_of_image|>",
        "image_end_token": "<|end_of_image|>",
    }
    ids = {f"{name}_id": name for name in ("video_token", "image_start_token", "image_end_token")}
    return Encoder("glm4v_moe", GLM4V, vision, own, tokens, ids=ids)


def _pixtral(told: Told) -> Encoder:
    """Of Mistral's models; the first Pixtral, whose patches are not merged, is a LLaVA to transformers."""
    merges, merged = told.has("mm.patch_merger.weight"), told.settings.whole("vision.spatial_merge_size", 1)
    patch = told.settings.whole("vision.patch_size")
    vision = {
        **told.sizes,
        "model_type": "pixtral",
        "image_size": told.image_size,
        "hidden_act": told.activation,
        "rope_parameters": {"rope_theta": told.settings.real("rope.freq_base", 10_000.0), "rope_type": "default"},
    }
    projector: Entries = {"multimodal_projector_bias": told.has("mm.1.bias"), "vision_feature_layer": -1}
    projector |= {"spatial_merge_size": merged} if merges else {"vision_feature_select_strategy": "full"}
    own: Entries = {
        **told.colours(),
        "image_processor_type": "PixtralImageProcessor",
        "size": {"longest_edge": told.image_size},
        "patch_size": {"height": patch, "width": patch},
    }
    tokens = {"image_token": "[IMG]", "image_break_token": "[IMG_BREAK]", "image_end_token": "[IMG_END]"}
    whole: Entries = {
        "processor_class": "PixtralProcessor",
        "patch_size": patch,
        "spatial_merge_size": merged,
        **tokens,
    }
    kind = "mistral3" if merges else "llava"
    names = replace(PIXTRAL, changes={}) if told.settings.flag("vision.attention.unpermuted") else PIXTRAL
    return Encoder(kind, names, vision, own, tokens, others=projector, whole=whole | tokens, row="image_token_index")


def _internvl(told: Told) -> Encoder:
    scale = told.settings.whole("vision.projector.scale_factor", MERGED)
    rows, patch = told.per_side(scale) ** 2, told.settings.whole("vision.patch_size")
    vision = {
        **told.sizes,
        "model_type": "internvl_vision",
        "image_size": [told.image_size] * 2,
        "patch_size": [patch] * 2,
        "hidden_act": told.activation,
        "layer_norm_eps": told.settings.real("vision.attention.layer_norm_epsilon"),
        "norm_type": "layer_norm" if told.has("v.blk.0.ln1.bias") else "rms_norm",
        "use_qk_norm": told.has("v.blk.0.attn_q_norm.weight"),
        "attention_bias": told.has("v.blk.0.attn_q.bias"),
    }
    tokens = {
        "context_image_token": "<IMG_CONTEXT>",
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "video_token": "<video>",
    }
    own: Entries = {
        **told.colours(),
        "size": {"height": told.image_size, "width": told.image_size},
        "min_patches": told.settings.whole("vision.preproc_min_tiles", 1),
        "max_patches": told.settings.whole("vision.preproc_max_tiles", MOST_TILES),
        "crop_to_patches": True,
    }
    others: Entries = {"downsample_ratio": 1 / scale, "image_seq_length": rows}
    return Encoder("internvl", INTERNVL, vision, own, tokens, others=others, whole={"image_seq_length": rows})


def _gemma4(told: Told) -> Encoder:
    sizes, scale = told.sizes, told.settings.whole("vision.projector.scale_factor", GEMMA4_SCALE)
    heads, width = told.settings.whole("vision.attention.head_count"), told.settings.whole("vision.embedding_length")
    if not heads or width % heads:
        raise told.settings.refused("vision.attention.head_count")
    positions = told.header.tensors.get("v.position_embd.weight")
    if positions is None or len(positions.shape) != 3:
        raise told.settings.without("v.position_embd.weight")
    vision = {
        **sizes,
        "model_type": "gemma4_vision",
        "num_key_value_heads": heads,
        "head_dim": width // heads,
        "rms_norm_eps": told.settings.real("vision.attention.layer_norm_epsilon", 1e-6),
        "hidden_activation": "gelu_pytorch_tanh",
        "pooling_kernel_size": scale,
        "position_embedding_size": positions.shape[1],
        "standardize": told.has("v.std_bias"),
        "use_clipped_linears": told.has("v.blk.0.attn_q.input_min"),
    }
    own = {"patch_size": sizes["patch_size"], "pooling_kernel_size": scale, "max_soft_tokens": GEMMA4_ROWS}
    tokens = {
        "image_token": "<|image|>",
        "boi_token": "<|image>",
        "eoi_token": "<image|>",
        "audio_token": "<|audio|>",
        "boa_token": "<|audio>",
        "eoa_token": "<audio|>",
    }
    # Published models with embeddings for every layer read pictures row by row; no file says it.
    seen: Entries = {} if told.text.get("hidden_size_per_layer_input") else {"use_bidirectional_attention": "vision"}
    ids = {"boi_token_id": "boi_token", "eoi_token_id": "eoi_token"}
    return Encoder("gemma4", GEMMA4, vision, own, tokens, text=seen, ids=ids)


PROJECTORS: Mapping[str, Callable[[Told], Encoder]] = MappingProxyType(
    {
        "gemma3": _gemma3,
        "gemma4v": _gemma4,
        "glm4v": _glm4v,
        "internvl": _internvl,
        "pixtral": _pixtral,
        "qwen2vl_merger": _qwen2,
        "qwen2.5vl_merger": _qwen25,
        "qwen3vl_merger": _qwen3,
    }
)
"""By what a file says is its projector."""
_OF_QWEN2 = ("qwen2vl",)
ARCHITECTURES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gemma3": ("gemma3",),
        "gemma4v": ("gemma4",),
        "glm4v": ("glm4moe",),
        "internvl": ("qwen2", "qwen3", "qwen3moe", "llama", "internlm2", "gpt-oss"),
        "pixtral": ("llama", "mistral3"),
        "qwen2vl_merger": _OF_QWEN2,
        "qwen2.5vl_merger": _OF_QWEN2,
        "qwen3vl_merger": ("qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe"),
    }
)
"""Whose language models each is for, by what their files say is their architecture."""
