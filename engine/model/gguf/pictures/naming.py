"""What llama.cpp calls the weights of encoders of pictures, what transformers calls them, and how they differ.

The names are those of `gguf.constants.MODEL_TENSORS`, without the kind (`weight`, `bias`) that stands behind most.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Change = Literal["", "heads", "plus one", "three", "scalar", "patches"]
"""What the converter did: nothing; permuted the rows of each head; added 1; may have taken away the first of three
dimensions where their length is 1; made a vector of a number; made a convolution of a matrix whose rows have the
colours of each pixel together."""

TOWER, VISUAL, PROJECTOR = "model.vision_tower.", "model.visual.", "model.multi_modal_projector."
PATCHES, FURTHER_PATCHES = "v.patch_embd.weight", "v.patch_embd.weight.1"  # of the first and the second picture
BREAK = "v.token_embd.img_break"  # an embedding of the language model, which has it itself
SOUND = ("a.", "mm.a.")  # what names of the encoder of sound begin with
QUERIES_KEYS_VALUES = ("attn_q", "attn_k", "attn_v")


@dataclass(frozen=True, slots=True)
class Names:
    """The weights of one kind of encoder.

    `outside`: names outside the layers; `layers`: what the names of those inside begin with, before the number;
    `inside`: names within a layer. Names with their kind stand for whole names of transformers' parameters.
    `changes`: by llama.cpp's name with its kind. `fused`: what is one weight of queries, keys and values in
    transformers. `frames`: the convolution over two pictures, of which the file has two. `swaps`: whether old files
    call the two matrices behind attention the other way round.
    """

    outside: Mapping[str, str]
    layers: str
    inside: Mapping[str, str]
    changes: Mapping[str, Change] = field(default_factory=dict)
    fused: str = ""
    frames: str = ""
    swaps: bool = False


_SIGLIP_LAYER = {
    "ln1": "layer_norm1",
    "ln2": "layer_norm2",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_out": "self_attn.out_proj",
    "ffn_up": "mlp.fc1",
    "ffn_down": "mlp.fc2",
}
GEMMA3 = Names(
    {
        "v.patch_embd": f"{TOWER}embeddings.patch_embedding",
        "v.position_embd": f"{TOWER}embeddings.position_embedding",
        "v.post_ln": f"{TOWER}post_layernorm",
        "mm.input_projection.weight": f"{PROJECTOR}mm_input_projection_weight",
        "mm.soft_emb_norm": f"{PROJECTOR}mm_soft_emb_norm",
    },
    f"{TOWER}encoder.layers.",
    _SIGLIP_LAYER,
    {"mm.soft_emb_norm.weight": "plus one"},
    swaps=True,
)
_QWEN_LAYER = {"ln1": "norm1", "ln2": "norm2", "attn_qkv": "attn.qkv", "attn_out": "attn.proj"}
_GATED = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
_QWEN2_OUTSIDE = {
    "v.post_ln": f"{VISUAL}merger.ln_q",
    "mm.0": f"{VISUAL}merger.mlp.0",
    "mm.2": f"{VISUAL}merger.mlp.2",
}
QWEN2 = Names(
    _QWEN2_OUTSIDE,
    f"{VISUAL}blocks.",
    _QWEN_LAYER | {"ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"},
    fused="attn.qkv",
    frames=f"{VISUAL}patch_embed.proj.weight",
    swaps=True,
)
QWEN25 = Names(
    _QWEN2_OUTSIDE,
    f"{VISUAL}blocks.",
    _QWEN_LAYER | _GATED,
    fused="attn.qkv",
    frames=f"{VISUAL}patch_embed.proj.weight",
    swaps=True,
)
QWEN3 = Names(
    {
        "v.patch_embd": f"{VISUAL}patch_embed.proj",
        "v.position_embd": f"{VISUAL}pos_embed",
        "v.post_ln": f"{VISUAL}merger.norm",
        "mm.0": f"{VISUAL}merger.linear_fc1",
        "mm.2": f"{VISUAL}merger.linear_fc2",
    },
    f"{VISUAL}blocks.",
    _QWEN_LAYER | {"ffn_up": "mlp.linear_fc1", "ffn_down": "mlp.linear_fc2"},
    fused="attn.qkv",
    frames=f"{VISUAL}patch_embed.proj.weight",
)
DEEPER = {"norm": "norm", "fc1": "linear_fc1", "fc2": "linear_fc2"}
"""What makes further features of Qwen 3 VL, behind `v.deepstack.` and the number of the layer."""
GLM4V = Names(
    {
        "v.patch_embd": f"{VISUAL}patch_embed.proj",
        "v.position_embd": f"{VISUAL}embeddings.position_embedding",
        "v.norm_embd": f"{VISUAL}post_conv_layernorm",
        "v.post_ln": f"{VISUAL}post_layernorm",
        "mm.patch_merger": f"{VISUAL}downsample",
        "mm.model.fc": f"{VISUAL}merger.proj",
        "mm.post_norm": f"{VISUAL}merger.post_projection_norm",
        "mm.gate": f"{VISUAL}merger.gate_proj",
        "mm.up": f"{VISUAL}merger.up_proj",
        "mm.down": f"{VISUAL}merger.down_proj",
    },
    f"{VISUAL}blocks.",
    _QWEN_LAYER | _GATED,
    fused="attn.qkv",
    frames=f"{VISUAL}patch_embed.proj.weight",
)
PIXTRAL = Names(
    {
        "v.patch_embd": f"{TOWER}patch_conv",
        "v.pre_ln": f"{TOWER}ln_pre",
        "mm.input_norm": f"{PROJECTOR}norm",
        "mm.patch_merger": f"{PROJECTOR}patch_merger.merging_layer",
        "mm.1": f"{PROJECTOR}linear_1",
        "mm.2": f"{PROJECTOR}linear_2",
    },
    f"{TOWER}transformer.layers.",
    {
        "ln1": "attention_norm",
        "ln2": "ffn_norm",
        "attn_q": "attention.q_proj",
        "attn_k": "attention.k_proj",
        "attn_v": "attention.v_proj",
        "attn_out": "attention.o_proj",
        "ffn_gate": "feed_forward.gate_proj",
        "ffn_up": "feed_forward.up_proj",
        "ffn_down": "feed_forward.down_proj",
    },
    {f"{name}.{kind}": "heads" for name in ("attn_q", "attn_k") for kind in ("weight", "bias")},
)
INTERNVL = Names(
    {
        "v.class_embd": f"{TOWER}embeddings.cls_token",
        "v.position_embd.weight": f"{TOWER}embeddings.position_embeddings",
        "v.patch_embd": f"{TOWER}embeddings.patch_embeddings.projection",
        "mm.model.mlp.0": f"{PROJECTOR}layer_norm",
        "mm.model.mlp.1": f"{PROJECTOR}linear_1",
        "mm.model.mlp.3": f"{PROJECTOR}linear_2",
    },
    f"{TOWER}encoder.layer.",
    {
        "ln1": "layernorm_before",
        "ln2": "layernorm_after",
        "attn_q": "attention.q_proj",
        "attn_k": "attention.k_proj",
        "attn_v": "attention.v_proj",
        "attn_q_norm": "attention.q_norm",
        "attn_k_norm": "attention.k_norm",
        "attn_out": "attention.projection_layer",
        "ls1.weight": "lambda_1",
        "ls2.weight": "lambda_2",
        "ffn_up": "mlp.fc1",
        "ffn_down": "mlp.fc2",
    },
    {"v.class_embd": "three", "v.position_embd.weight": "three"},
)
CLIPPED = ("input_min", "input_max", "output_min", "output_max")
# The same order as in files of Ollama, where the numbers lie one behind the other.
GEMMA4_MATRICES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_out": "self_attn.o_proj",
    **_GATED,
}
GEMMA4 = Names(
    {
        "v.patch_embd": f"{TOWER}patch_embedder.input_proj",
        "v.position_embd.weight": f"{TOWER}patch_embedder.position_embedding_table",
        "v.std_bias": f"{TOWER}std_bias",
        "v.std_scale": f"{TOWER}std_scale",
        "mm.input_projection": "model.embed_vision.embedding_projection",
    },
    f"{TOWER}encoder.layers.",
    {
        "ln1": "input_layernorm",
        "attn_post_norm": "post_attention_layernorm",
        "ln2": "pre_feedforward_layernorm",
        "ffn_post_norm": "post_feedforward_layernorm",
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        **{name: f"{own}.linear" for name, own in GEMMA4_MATRICES.items()},
        **{f"{name}.{end}": f"{own}.{end}" for name, own in GEMMA4_MATRICES.items() for end in CLIPPED},
    },
    {
        "v.patch_embd.weight": "patches",
        **{f"{name}.{end}": "scalar" for name in GEMMA4_MATRICES for end in CLIPPED},
    },
)
