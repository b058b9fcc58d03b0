"""Pictures that a conversation shows to a model which reads them, and which models those are."""

from dataclasses import dataclass, field

MOST_PICTURE_BYTES = 32 << 20  # of one picture, encoded
MOST_PICTURES = 64  # of one conversation
PICTURE_KINDS = ("png", "jpeg", "webp", "gif", "bmp")  # of an animation the first picture is read

PICTURE_FAMILIES = frozenset(
    {
        "deepseek_ocr2",
        "exaone4_5",
        "gemma3",
        "gemma4",
        "glm46v",
        "glm4v",
        "glm4v_moe",
        "glm5_next",
        "hyperclovax_vision_v2",
        "idefics3",
        "internvl",
        "lfm3_vl",
        "lighton_ocr",
        "llava",
        "llava_next",
        "llava_onevision",
        "mistral3",
        "mistral_large4",
        "paddleocr_vl",
        "qwen2_5_vl",
        "qwen2_vl",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_vl",
        "qwen3_vl_moe",
        "qwen4_exp",
    }
)
"""The `model_type` of models whose pictures are read; `tests/engine/model/pictures` compares each with transformers."""
PICTURE_SETTINGS = "preprocessor_config.json"  # how they are read
PROCESSOR_SETTINGS, OF_PICTURES = "processor_config.json", "image_processor"  # or this entry of this file says it


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture, encoded as one of `PICTURE_KINDS`, in the text of a turn behind its first `at` characters."""

    data: bytes = field(repr=False)
    at: int = 0
