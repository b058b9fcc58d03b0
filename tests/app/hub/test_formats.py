"""In which formats a repository's weights are, told from whatever the hub says of it."""

from typing import Any

import pytest

from app.hub.formats import formats_of, parameters_in
from app.hub.search import row_of

BF16 = {"parameters": {"BF16": 1000}}


def stored(**quantization: Any) -> dict[str, Any]:
    """A repository whose config.json describes its quantization so."""
    return {"tags": ["safetensors"], "config": {"quantization_config": quantization}}


@pytest.mark.parametrize(
    ("described", "formats", "usable"),
    [
        ({"tags": ["safetensors"], "safetensors": BF16}, ("safetensors 16-bit",), True),
        ({"safetensors": {"parameters": {"BF16": 1, "F32": 9}}}, ("safetensors 32-bit",), True),
        ({"tags": ["safetensors", "fp8"]}, ("FP8",), True),
        ({"tags": ["safetensors"], "safetensors": {"parameters": {"F8_E4M3": 9, "BF16": 1}}}, ("FP8",), True),
        (stored(quant_method="awq"), ("AWQ",), True),
        (stored(quant_method="intel/auto-round", bits=4), ("AutoRound",), True),
        ({"tags": ["safetensors", "gptq", "4-bit"]}, ("GPTQ",), True),
        ({"tags": ["safetensors", "bitsandbytes", "4-bit"]}, ("bnb-4bit",), True),
        ({"tags": ["safetensors", "bitsandbytes", "8-bit"]}, ("bnb-8bit",), True),
        (stored(load_in_8bit=True, quant_method="bitsandbytes"), ("bnb-8bit",), True),
        ({"tags": ["safetensors", "mxfp4"]}, ("MXFP4",), True),
        ({"tags": ["safetensors", "compressed-tensors"]}, ("compressed-tensors",), True),
        (stored(quant_method="compressed-tensors", format="nvfp4-pack-quantized"), ("NVFP4",), True),
        (stored(quant_method="modelopt", quant_algo="NVFP4"), ("NVFP4",), True),
        (stored(producer={"name": "modelopt"}, quantization={"quant_algo": "FP8"}), ("FP8",), True),
        (stored(quant_method="modelopt", quant_algo="MIXED_PRECISION"), ("ModelOpt mixed",), True),
        ({"tags": ["safetensors", "modelopt"]}, ("NVFP4",), True),
        ({"tags": ["modelopt"], "safetensors": {"parameters": {"F8_E4M3": 9, "BF16": 1}}}, ("FP8",), True),
        ({"tags": ["modelopt"], "safetensors": {"parameters": {"U8": 9, "F8_E4M3": 1}}}, ("NVFP4",), True),
        ({"tags": ["gguf"]}, ("GGUF",), True),
        ({"gguf": {"total": 7, "architecture": "qwen3"}}, ("GGUF",), True),
        ({"tags": ["safetensors", "gguf"], "safetensors": BF16}, ("safetensors 16-bit", "GGUF"), True),
        ({"tags": ["safetensors", "mlx", "4-bit"]}, ("MLX",), False),
        ({"tags": ["safetensors", "exl2"]}, ("EXL2",), False),
        ({"tags": ["onnx"]}, ("ONNX",), False),
        ({"tags": ["pytorch"]}, (), False),
        ({"tags": ["safetensors"], "pipeline_tag": "text-to-image"}, ("safetensors 16-bit",), False),
        ({"tags": ["gguf"], "pipeline_tag": "image-text-to-text"}, ("GGUF",), True),
    ],
)  # fmt: skip
def test_a_row_names_its_formats(described: dict[str, Any], formats: tuple[str, ...], usable: bool) -> None:
    row = row_of({"id": "org/tiny"} | described)
    assert row is not None
    assert (row.formats, row.usable) == (formats, usable)


def test_a_gguf_row_has_its_family_and_size_from_the_hubs_own_reading() -> None:
    row = row_of({"id": "org/tiny", "gguf": {"total": 7_000_000_000, "architecture": "qwen3"}})
    assert row is not None
    assert (row.parameters, row.model_type, row.has_variants, row.has_safetensors) == (
        7_000_000_000,
        "qwen3",
        True,
        False,
    )


@pytest.mark.parametrize("junk", [7, [], "x", {"quant_method": []}, {"quant_method": "q" * 10_000}])
def test_a_damaged_description_is_no_format(junk: object) -> None:
    (found,) = formats_of(["safetensors"], {"quantization_config": junk}, (), is_gguf=False)
    assert len(found) <= 40


def test_parameters_are_guessed_by_the_bits_of_the_format() -> None:
    assert parameters_in(16_000, "safetensors 16-bit") == 8_000
    assert parameters_in(4_600, "GGUF Q4_K_M") == 8_000
    assert parameters_in(8_600, "FP8") == 8_000
