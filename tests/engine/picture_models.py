"""Tiny random models that read pictures, saved as they are published: with a processor, a tokenizer and a template."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import tokenizers
import transformers
from PIL import Image
from tokenizers import decoders, models, pre_tokenizers
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

from engine.protocol.pictures import Picture
from tests.engine.family_models import random_model, tiny_config
from tests.engine.made_once import copy_made_once

PAD, BEGIN, END = "<pad>", "<s>", "</s>"
TOKEN = "<|image_pad|>"
# By the names that processors ask tokenizers for.
SPECIAL: Mapping[str, str] = MappingProxyType(
    {
        "image_token": TOKEN,
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "video_token": "<|video_pad|>",
        "audio_token": "<|audio_pad|>",
        "boa_token": "<|audio>",
        "eoa_token": "<audio|>",
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": TOKEN,
        "image_start_token": "[IMG_START]",
        "image_break_token": "[IMG_BREAK]",
        "image_end_token": "[IMG_END]",
        "vision_start_token": "<|vision_start|>",
        "vision_end_token": "<|vision_end|>",
    }
)
TURNS = ("<|user|>", "<|assistant|>")
SIDES = {"height": 28, "width": 28}
PINPOINTS = [[28, 28], [28, 56], [56, 28]]
ROWS = {"size": {"longest_edge": 84}, "patch_size": SIDES}
PIXTRAL = {"patch_size": 14, "spatial_merge_size": 2, "image_token": TOKEN}
CLIP = {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
# What makes pictures small: settings of processors, by kind of model; those of others go by the size of the picture.
SETTINGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "gemma3": {"size": {"height": 84, "width": 84}},
        "gemma4": {"patch_size": 4, "pooling_kernel_size": 2, "max_soft_tokens": 70},
        "idefics3": {"size": {"longest_edge": 28}, "max_image_size": {"longest_edge": 28}, "do_image_splitting": False},
        "internvl": {"size": SIDES, "crop_to_patches": False},
        "llava": {"size": {"shortest_edge": 28}, "crop_size": SIDES},
        "llava_next": {"size": {"shortest_edge": 28}, "crop_size": SIDES, "image_grid_pinpoints": PINPOINTS},
        "llava_onevision": {"size": SIDES, "image_grid_pinpoints": PINPOINTS},
        **dict.fromkeys(("lighton_ocr", "mistral3", "mistral_large4"), ROWS),
        "paddleocr_vl": {"min_pixels": 28 * 28, "max_pixels": 84 * 84},
    }
)
# And what the processor as a whole has to know.
WHOLE: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "gemma3": {"image_seq_length": 9},
        "idefics3": {"image_seq_len": 1},
        "internvl": {"image_seq_length": 1},
        "llava_onevision": {"num_image_tokens": 4, "vision_feature_select_strategy": "full"},
        **dict.fromkeys(("lighton_ocr", "mistral3", "mistral_large4"), PIXTRAL),
        **dict.fromkeys(("llava", "llava_next"), CLIP),
    }
)
MARKS = {"gemma3": "<start_of_image>", "idefics3": "<image>"}  # what templates write; others the token itself
TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m.role + '|>' if m.role != 'system' }}"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'image' %}{{ 'MARK' }}{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def picture(seed: int = 0, width: int = 56, height: int = 84, kind: str = "PNG") -> Picture:
    """A picture of random colours."""
    file = io.BytesIO()
    random_image(seed, width, height).save(file, kind)
    return Picture(file.getvalue())


def random_image(seed: int = 0, width: int = 56, height: int = 84) -> Image.Image:
    """The same, decoded."""
    colours = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(colours)


def tokenizer_of(kind: str) -> Any:
    """A fast tokenizer of letters, with all special tokens that a kind of model knows."""
    letters = [PAD, BEGIN, END, *sorted({*map(chr, range(0x21, 0x7F)), "Ġ", "Ċ"}), "ĠĠ"]
    vocabulary = {name: token for token, name in enumerate(letters)}
    library = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[("Ġ", "Ġ")]))  # GGUF files need a merge
    library.pre_tokenizer, library.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    own = "<image>" if kind == "idefics3" else TOKEN
    special = {name: own if token == TOKEN else token for name, token in SPECIAL.items()}
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=library, pad_token=PAD, bos_token=BEGIN, eos_token=END, extra_special_tokens=special
    )
    made.add_special_tokens({"additional_special_tokens": [*TURNS]})
    made.chat_template = TEMPLATE.replace("MARK", MARKS.get(kind, TOKEN))
    return made


def picture_config(kind: str, token: int) -> Any:
    """A small config; `token` stands for a row of a picture."""
    config = tiny_config(kind)
    for name in ("image_token_id", "image_token_index"):
        if getattr(config, name, None) is not None:
            setattr(config, name, token)
    if kind == "internvl":
        config.image_seq_length = 1
    if kind in ("llava_next", "llava_onevision"):
        config.image_grid_pinpoints = PINPOINTS
    if kind == "gemma3":
        config.mm_tokens_per_image = 9
        config.vision_config.image_size = 84
    if kind == "mistral3":
        config.vision_config.image_size = 84
        config.text_config.sliding_window = None
    if kind == "qwen2_5_vl":
        config.text_config.use_sliding_window, config.text_config.sliding_window = False, None
        config.text_config.layer_types = ["full_attention"] * config.text_config.num_hidden_layers
    if kind.startswith("qwen3_5"):
        rope = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
        config.text_config.rope_parameters = {**rope, "mrope_section": [2, 1, 1], "mrope_interleaved": True}
    if kind == "gemma4":
        vision = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
        vision |= {"num_key_value_heads": 4, "head_dim": 16, "patch_size": 4, "pooling_kernel_size": 2}
        config.vision_config = transformers.Gemma4VisionConfig(**vision)
        config.text_config.use_bidirectional_attention = "vision"
    return config


def image_processor(kind: str) -> Any:
    """transformers' own, without torchvision."""
    names = IMAGE_PROCESSOR_MAPPING_NAMES.get(kind) or IMAGE_PROCESSOR_MAPPING_NAMES["qwen2_vl"]
    return getattr(transformers, names["pil"])(**SETTINGS.get(kind, {}))


def save_picture_model(kind: str, folder: Path, seed: int = 0) -> None:
    """A model of this kind in a folder, made once for all tests."""
    copy_made_once(("pictures", kind, seed), lambda made: _save(kind, made, seed), folder)


def _save(kind: str, folder: Path, seed: int) -> None:
    tokenizer = tokenizer_of(kind)
    tokenizer.save_pretrained(folder)
    token = tokenizer.convert_tokens_to_ids("<image>" if kind == "idefics3" else TOKEN)
    random_model(picture_config(kind, token), seed).save_pretrained(folder)
    image_processor(kind).save_pretrained(folder)
    if kind in WHOLE:
        (folder / "processor_config.json").write_text(json.dumps(WHOLE[kind]))
