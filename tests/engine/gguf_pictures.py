"""Tiny models that read pictures in GGUF files: the language model, and beside it the encoder, as llama.cpp's converter
(conversion/*.py) writes them from the files of a model in safetensors. The names are those of the `gguf` package.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import gguf
from gguf import GGMLQuantizationType as Kind
from gguf.gguf_writer import GGUFValue
from safetensors.torch import save_file
from torch import Tensor

from tests.engine.family_models import random_model
from tests.engine.gguf_families import permuted
from tests.engine.gguf_files import encode, write_gguf
from tests.engine.picture_models import TOKEN, picture_config, save_picture_model, tokenizer_of
from tests.engine.tensor_files import read_tensors

Named = tuple[str, Tensor]
LANGUAGE = "model.language_model."
# What the language models' files call their networks, and the encoders' files their projectors.
ARCHITECTURES = {
    "gemma3": "gemma3", "gemma4": "gemma4", "glm4v_moe": "glm4moe", "internvl": "qwen2", "mistral3": "llama",
    "qwen2_vl": "qwen2vl", "qwen2_5_vl": "qwen2vl", "qwen3_vl": "qwen3vl", "qwen3_vl_moe": "qwen3vlmoe",
    "qwen3_5": "qwen35", "qwen3_5_moe": "qwen35moe",
}  # fmt: skip
PROJECTORS = {
    "gemma3": "gemma3", "gemma4": "gemma4v", "glm4v_moe": "glm4v", "internvl": "internvl", "mistral3": "pixtral",
    "qwen2_vl": "qwen2vl_merger", "qwen2_5_vl": "qwen2.5vl_merger",
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), "qwen3vl_merger"),
}  # fmt: skip
# What published tokenizers call the tokens that the tiny ones have other names for.
TOKENS: Mapping[str, Mapping[str, str]] = {
    "gemma3": {TOKEN: "<image_soft_token>"},
    "gemma4": {TOKEN: "<|image|>", "<start_of_image>": "<|image>", "<end_of_image>": "<image|>"},
    "glm4v_moe": {TOKEN: "<|image|>", "<|vision_start|>": "<|begin_of_image|>", "<|vision_end|>": "<|end_of_image|>"},
    "internvl": {TOKEN: "<IMG_CONTEXT>"},
    "mistral3": {TOKEN: "[IMG]"},
}


def save_picture_gguf(
    kind: str, folder: Path, stored: str = "F32", beside: str = "mmproj-F16.gguf"
) -> tuple[Path, Path]:
    """The same tiny model twice: in safetensors in a folder inside, and in GGUF files; returns both paths."""
    original, made = folder / "safetensors", folder / "gguf"
    made.mkdir(parents=True)
    save_picture_model(kind, original)
    _as_stored(original)
    path = write_language_model(kind, original, made / f"tiny-{kind}-F32.gguf")
    if beside:
        write_encoder(kind, original, made / beside, stored)
    return original, path


def _as_stored(folder: Path) -> None:
    """Have weights that files hold with 1 added as they are once it is taken away again, and pictures as published."""
    settings = json.loads((folder / "preprocessor_config.json").read_text("utf-8"))
    if "max_soft_tokens" in settings:
        settings["max_soft_tokens"] = 280
        (folder / "preprocessor_config.json").write_text(json.dumps(settings), "utf-8")
        config = json.loads((folder / "config.json").read_text("utf-8"))
        config["text_config"]["use_bidirectional_attention"] = None  # as of all with embeddings for every layer
        (folder / "config.json").write_text(json.dumps(config), "utf-8")
    path = folder / "model.safetensors"
    tensors = read_tensors(path)
    if name := next((name for name in tensors if name.endswith("mm_soft_emb_norm.weight")), ""):
        tensors[name] = (tensors[name] + 1) - 1
        path.unlink()
        save_file(tensors, path, {"format": "pt"})


def write_language_model(kind: str, folder: Path, path: Path) -> Path:
    """The language model alone."""
    token = tokenizer_of(kind).convert_tokens_to_ids(TOKEN)
    model = random_model(picture_config(kind, token))
    state = {
        name.replace(LANGUAGE, "model."): tensor
        for name, tensor in model.state_dict().items()
        if name.startswith((LANGUAGE, "lm_head."))
    }
    config = model.config.get_text_config()
    config.tie_word_embeddings = bool(getattr(model.config, "tie_word_embeddings", False))
    alone = SimpleNamespace(config=config, state_dict=lambda: state)
    named = path.parent / "tokenizer"
    _save_tokenizer(kind, folder, named)
    return write_gguf(path, alone, tokenizer=named, architecture=ARCHITECTURES[kind], splitting="gpt-2")


def _save_tokenizer(kind: str, folder: Path, named: Path) -> None:
    """A tokenizer's files, with the tokens called as published."""
    named.mkdir(exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        content = (folder / name).read_text("utf-8")
        for own, published in TOKENS.get(kind, {}).items():
            content = content.replace(own, published)
        (named / name).write_text(content, "utf-8")


def write_encoder(
    kind: str,
    folder: Path,
    path: Path,
    stored: str = "F32",
    projector: str = "",
    changed: Mapping[str, int] = MappingProxyType({}),
) -> Path:
    """The encoder, perhaps with another `projector`; `changed`: other numbers for entries."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    writer = gguf.GGUFWriter(path, "clip")
    _describe(writer, kind, config, json.loads((folder / "preprocessor_config.json").read_text("utf-8")))
    entries = writer.kv_data[0]
    for key, value in changed.items():
        entries[f"clip.{key}"] = GGUFValue(value, gguf.GGUFValueType.UINT32)
    if projector:
        entries["clip.projector_type"] = GGUFValue(projector, gguf.GGUFValueType.STRING)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, 8)
    for own, tensor in read_tensors(folder / "model.safetensors").items():
        for name, made in CONVERTERS[kind](own, tensor, config):
            found = name if name.startswith(("v.", "mm.")) else names.get_name(name, (".weight", ".bias"))
            assert found, name
            own_kind = stored if made.ndim > 1 and "embd" not in found else "F32"
            writer.add_tensor(found, encode(made.float().numpy(), own_kind), raw_dtype=Kind[own_kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _describe(writer: Any, kind: str, config: dict[str, Any], pictures: dict[str, Any]) -> None:
    vision, text = config["vision_config"], config["text_config"]
    side = vision.get("image_size", 560)
    patch = vision["patch_size"]
    if kind in ("qwen2_vl", "qwen2_5_vl", "gemma4"):
        side = 224 if kind == "gemma4" else 560
    elif "num_position_embeddings" in vision:
        side = int(vision["num_position_embeddings"] ** 0.5 * patch)
    writer.add_clip_has_vision_encoder(True)
    writer.add_vision_projection_dim(text["hidden_size"])
    writer.add_vision_image_size(side[0] if isinstance(side, list) else side)
    writer.add_vision_patch_size(patch[0] if isinstance(patch, list) else patch)
    is_qwen2 = kind == "qwen2_vl"
    writer.add_vision_embedding_length(vision["embed_dim"] if is_qwen2 else vision["hidden_size"])
    writer.add_vision_feed_forward_length(vision["hidden_size"] if is_qwen2 else vision["intermediate_size"])
    writer.add_vision_block_count(vision.get("num_hidden_layers") or vision["depth"])
    writer.add_vision_head_count(vision.get("num_attention_heads") or vision["num_heads"])
    writer.add_vision_image_mean(pictures["image_mean"])
    writer.add_vision_image_std(pictures["image_std"])
    if kind == "gemma4":
        writer.add_clip_vision_projector_type("gemma4v")
    else:
        writer.add_clip_projector_type(PROJECTORS[kind])
    writer.add_vision_attention_layernorm_eps(
        vision.get("layer_norm_eps") or vision.get("rms_norm_eps") or (1e-5 if kind == "mistral3" else 1e-6)
    )
    _DESCRIBE[kind](writer, config)


def _describe_gemma3(writer: Any, config: dict[str, Any]) -> None:
    vision = config["vision_config"]
    writer.add_vision_use_gelu(True)
    factor = vision["image_size"] // vision["patch_size"] // int(config["mm_tokens_per_image"] ** 0.5)
    writer.add_vision_projector_scale_factor(factor)


def _describe_gemma4(writer: Any, config: dict[str, Any]) -> None:
    writer.add_vision_projector_scale_factor(config["vision_config"]["pooling_kernel_size"])


def _describe_qwen2(_writer: Any, _config: dict[str, Any]) -> None:
    """Nothing further."""


def _describe_qwen25(writer: Any, config: dict[str, Any]) -> None:
    writer.add_vision_use_silu(True)
    writer.add_vision_n_wa_pattern(config["vision_config"]["fullatt_block_indexes"][0] + 1)


def _describe_qwen3(writer: Any, config: dict[str, Any]) -> None:
    vision = config["vision_config"]
    writer.add_vision_use_gelu(True)
    writer.add_vision_spatial_merge_size(vision["spatial_merge_size"])
    writer.add_vision_min_pixels(3136)
    writer.add_vision_max_pixels(1_003_520)
    shown = vision.get("deepstack_visual_indexes", [])
    writer.add_vision_is_deepstack_layers([index in shown for index in range(vision["depth"])])


def _describe_glm4v(writer: Any, _config: dict[str, Any]) -> None:
    writer.add_vision_use_silu(True)
    writer.add_vision_min_pixels(3136)
    writer.add_vision_max_pixels(1_003_520)


def _describe_mistral3(writer: Any, config: dict[str, Any]) -> None:
    act = config["vision_config"]["hidden_act"]
    writer.add_vision_use_silu(True) if act == "silu" else writer.add_vision_use_gelu(True)
    writer.add_vision_spatial_merge_size(config["spatial_merge_size"])


def _describe_internvl(writer: Any, config: dict[str, Any]) -> None:
    writer.add_vision_use_gelu(True)
    writer.add_vision_projector_scale_factor(int(1 / config["downsample_ratio"]))


_DESCRIBE: Mapping[str, Callable[[Any, dict[str, Any]], None]] = {
    "gemma3": _describe_gemma3, "gemma4": _describe_gemma4, "glm4v_moe": _describe_glm4v,
    "internvl": _describe_internvl, "mistral3": _describe_mistral3, "qwen2_vl": _describe_qwen2,
    "qwen2_5_vl": _describe_qwen25,
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _describe_qwen3),
}  # fmt: skip


def _gemma3(own: str, tensor: Tensor, _config: dict[str, Any]) -> Iterator[Named]:
    if not own.startswith(("multi_modal_projector.", "vision_tower.")) or ".head." in own:
        return
    name = own.replace("vision_tower.", "vision_tower.vision_model.").replace("_weight", ".weight")
    yield name, tensor + 1 if "soft_emb_norm" in own else tensor


def _gemma4(own: str, tensor: Tensor, _config: dict[str, Any]) -> Iterator[Named]:
    if not own.startswith(("model.vision_tower.", "model.embed_vision.")):
        return
    name = own.replace("model.vision_tower.encoder.", "vision_model.model.").replace(".linear.weight", ".weight")
    if name.endswith("position_embedding_table"):
        name += ".weight"
    if name.endswith("patch_embedder.input_proj.weight"):
        side = int((tensor.shape[1] // 3) ** 0.5)
        tensor = tensor.view(len(tensor), side, side, 3).permute(0, 3, 1, 2).contiguous()
    if name.endswith("pre_feedforward_layernorm.weight"):  # the package has the name of the norm behind it for another
        yield f"v.blk.{name.split('.')[3]}.ln2.weight", tensor
    elif name.endswith("post_attention_layernorm.weight"):
        yield f"v.blk.{name.split('.')[3]}.attn_post_norm.weight", tensor
    elif tensor.ndim == 0:
        stem, _, end = name.rpartition(".")
        layer, part = stem.split(".")[3], stem.rpartition(".")[2]
        known = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_out"}
        yield f"v.blk.{layer}.{known.get(part, 'ffn_' + part.removesuffix('_proj'))}.{end}", tensor.unsqueeze(0)
    else:
        yield name, tensor


def _frames(tensor: Tensor) -> Iterator[Named]:
    yield "v.patch_embd.weight", tensor[:, :, 0].contiguous()
    yield "v.patch_embd.weight.1", tensor[:, :, 1].contiguous()


def _qwen2(own: str, tensor: Tensor, _config: dict[str, Any]) -> Iterator[Named]:
    if not own.startswith("visual."):
        return
    if ".qkv." in own:
        for part, letter in zip(tensor.chunk(3), "qkv", strict=True):
            yield own.replace("qkv", letter), part.contiguous()
    elif "patch_embed.proj.weight" in own:
        yield from _frames(tensor)
    else:
        yield own, tensor


def _qwen3(own: str, tensor: Tensor, config: dict[str, Any]) -> Iterator[Named]:
    name = own.removeprefix("model.")
    if not name.startswith("visual."):
        return
    if name.startswith("visual.deepstack_merger_list."):
        number, part, kind = name.split(".")[2:]
        layer = config["vision_config"]["deepstack_visual_indexes"][int(number)]
        yield f"v.deepstack.{layer}.{part.replace('linear_', '')}.{kind}", tensor
    elif name.startswith("visual.merger."):
        part, kind = name.split(".")[2:]
        yield f"{({'norm': 'v.post_ln', 'linear_fc1': 'mm.0', 'linear_fc2': 'mm.2'})[part]}.{kind}", tensor
    elif name == "visual.patch_embed.proj.weight":
        yield from _frames(tensor)
    else:
        yield name, tensor


def _glm4v(own: str, tensor: Tensor, _config: dict[str, Any]) -> Iterator[Named]:
    name = own.removeprefix("model.")
    if name == "visual.patch_embed.proj.weight":
        yield from _frames(tensor)
    elif name.startswith("visual."):
        yield name, tensor


def _mistral3(own: str, tensor: Tensor, config: dict[str, Any]) -> Iterator[Named]:
    name = own.removeprefix("model.")
    if not name.startswith(("multi_modal_projector.", "vision_tower.")):
        if name.endswith("embed_tokens.weight"):
            yield "v.token_embd.img_break", tensor[1]
        return
    if name.endswith(("q_proj.weight", "k_proj.weight")):
        tensor = permuted(tensor, config["vision_config"]["num_attention_heads"]).contiguous()
    yield name, tensor


def _internvl(own: str, tensor: Tensor, _config: dict[str, Any]) -> Iterator[Named]:
    name = own if own.startswith("model.") else f"model.{own}"
    if not name.startswith(("model.multi_modal_projector.", "model.vision_tower.")):
        return
    known = {"layer_norm": "mlp1.0", "linear_1": "mlp1.1", "linear_2": "mlp1.3"}
    if name.startswith("model.multi_modal_projector."):
        part, kind = name.split(".")[2:]
        name = f"{known[part]}.{kind}"
    elif ".lambda_" in name or "position_embedding" in name:
        name += ".weight"
    yield name, tensor


CONVERTERS: Mapping[str, Callable[[str, Tensor, dict[str, Any]], Iterator[Named]]] = MappingProxyType(
    {
        "gemma3": _gemma3, "gemma4": _gemma4, "glm4v_moe": _glm4v, "internvl": _internvl, "mistral3": _mistral3,
        "qwen2_vl": _qwen2, "qwen2_5_vl": _qwen2,
        **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _qwen3),
    }
)  # fmt: skip
