"""Which stored tensors are found to be one weight, and what is refused, in a sentence."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import ModelError
from engine.model.formats import table
from engine.model.formats.fp8 import Fp8
from engine.model.formats.mxfp4 import Mxfp4
from engine.model.formats.packed import PackedWeight
from engine.model.formats.table import find_packed
from engine.model.safetensors_header import TensorInfo
from engine.number_types import BITS

BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def stored(**shapes: tuple[str, tuple[int, ...]]) -> dict[str, TensorInfo]:
    """Tensors one behind the other in one file; `__` in a name stands for a dot."""
    tensors, at = {}, 0
    for name, (dtype, shape) in shapes.items():
        info = TensorInfo(dtype, shape, Path("model.safetensors"), at, at)
        end = at + info.elements * BITS[dtype] // 8
        tensors[name.replace("__", ".")] = TensorInfo(dtype, shape, info.shard, at, end)
        at = end
    return tensors


def find(packing: object, **shapes: tuple[str, tuple[int, ...]]) -> dict[str, PackedWeight]:
    """What is found of these tensors."""
    return dict(find_packed("it", {"quantization_config": packing}, stored(**shapes)))


@pytest.mark.parametrize(
    ("scale", "form"),
    [
        ((2, 3), Fp8(128, 128)),
        ((), Fp8(200, 300)),
        ((1,), Fp8(200, 300)),
        ((200, 1), Fp8(1, 300)),
        ((200,), Fp8(1, 300)),
    ],
)
@pytest.mark.parametrize("suffix", ["weight_scale_inv", "weight_scale", "scale", "qscale_weight"])
def test_the_scales_tell_what_they_are_for(scale: tuple[int, ...], form: Fp8, suffix: str) -> None:
    tensors = {"a__weight": ("F8_E4M3", (200, 300)), f"a__{suffix}": ("F32", scale), "b__weight": ("BF16", (4, 4))}
    found = find(BLOCKS, **tensors)
    assert list(found) == ["a.weight"]
    assert found["a.weight"].format == form
    assert found["a.weight"].shape == (200, 300)
    assert found["a.weight"].nbytes == 200 * 300 + 4 * max(1, len(scale) and _product(scale))


def _product(shape: tuple[int, ...]) -> int:
    size = 1
    for each in shape:
        size *= each
    return size


def test_the_experts_of_gpt_oss_are_turned() -> None:
    found = find(
        {"quant_method": "mxfp4"},
        e__gate_up_proj_blocks=("U8", (4, 96, 3, 16)),
        e__gate_up_proj_scales=("U8", (4, 96, 3)),
        e__gate_up_proj_bias=("BF16", (4, 96)),
    )
    assert {name: (weight.shape, weight.format) for name, weight in found.items()} == {
        "e.gate_up_proj": ((4, 96, 96), Mxfp4())
    }


def test_nothing_is_packed_where_config_json_says_nothing() -> None:
    assert find(None, a__weight=("F8_E4M3", (2, 2))) == {}


def test_the_packing_of_a_model_in_parts_is_that_of_its_language_model() -> None:
    tensors = stored(a__weight=("F8_E4M3", (2, 2)), a__weight_scale=("F32", ()))
    assert list(find_packed("it", {"text_config": {"quantization_config": BLOCKS}}, tensors)) == ["a.weight"]


@pytest.mark.parametrize("packing", ["aqlm", {"quant_method": "aqlm"}, {"quant_method": ["aqlm"]}])
def test_a_method_that_is_not_known_is_named(packing: object) -> None:
    with pytest.raises(ModelError, match=r"'it' are quantised already.*aqlm.*16 bits"):
        find(packing)


@pytest.mark.parametrize(
    "size", [[0, 128], [128, -1], [128], [1 << 40, 128], "128", [128.0, 128], [True, 128], {"a": 1}, 0]
)
def test_blocks_of_no_size_are_refused(size: object) -> None:
    with pytest.raises(ModelError, match=r"weight_block_size"):
        find({**BLOCKS, "weight_block_size": size}, a__weight=("F8_E4M3", (2, 2)), a__weight_scale=("F32", ()))


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [("F32", (3, 2)), ("F32", (2, 3, 1)), ("F32", (0,)), ("F32", (300, 1)), ("I8", (2, 3)), ("F64", (2, 3))],
)
def test_fp8_scales_that_do_not_fit_are_refused(dtype: str, scale: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"a\.weight.*has scales of the shape"):
        find(BLOCKS, a__weight=("F8_E4M3", (200, 300)), a__weight_scale_inv=(dtype, scale))


def test_blocks_that_lie_about_their_size_are_refused() -> None:
    for size in ([64, 64], [65536, 128]):
        with pytest.raises(ModelError, match="has scales of the shape"):
            find(
                {**BLOCKS, "weight_block_size": size},
                a__weight=("F8_E4M3", (200, 300)),
                a__weight_scale_inv=("F32", (2, 3)),
            )


def test_fp8_without_scales_is_refused() -> None:
    with pytest.raises(ModelError, match=r"a\.weight.*has no scales"):
        find(BLOCKS, a__weight=("F8_E4M3", (200, 300)))


@pytest.mark.parametrize(
    ("blocks", "scales"),
    [
        (("U8", (4, 96, 3, 16)), ("U8", (4, 96, 2))),
        (("U8", (4, 96, 3, 8)), ("U8", (4, 96, 3))),
        (("U8", (96, 3, 16)), ("U8", (96, 3))),
        (("I8", (4, 96, 3, 16)), ("U8", (4, 96, 3))),
        (("U8", (4, 96, 3, 16)), ("F32", (4, 96, 3))),
    ],
)
def test_mxfp4_that_does_not_fit_is_refused(blocks: tuple[str, Any], scales: tuple[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"'e'.*has scales of the shape"):
        find({"quant_method": "mxfp4"}, e_blocks=blocks, e_scales=scales)


def test_mxfp4_without_scales_is_refused() -> None:
    with pytest.raises(ModelError, match=r"'e'.*has no scales"):
        find({"quant_method": "mxfp4"}, e_blocks=("U8", (4, 96, 3, 16)))


def test_no_finder_gets_away_with_what_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = stored(a__codes=("U8", (8, 8)), b__codes=("U8", (8, 8)), c=("F32", (2, 2)))
    codes = tensors["a.codes"]

    def refused(found: dict[str, PackedWeight]) -> str:
        monkeypatch.setattr(table, "import_module", lambda _name: SimpleNamespace(find=lambda *_arguments: found))
        with pytest.raises(ModelError) as caught:
            table.find_packed("it", {"quantization_config": {"quant_method": "fp8"}}, tensors)
        return caught.value.message

    one = PackedWeight("a", (8, 8), {"codes": codes}, Mxfp4())
    assert "more numbers" in refused({"a": PackedWeight("a", (1 << 20, 1 << 20), {"codes": codes}, Mxfp4())})
    assert "no numbers" in refused({"a": PackedWeight("a", (0, 8), {"codes": codes}, Mxfp4())})
    assert "stored twice" in refused({"c": PackedWeight("c", (2, 2), {"codes": codes}, Mxfp4())})
    assert "shares" in refused({"a": one, "b": PackedWeight("b", (8, 8), {"codes": codes}, Mxfp4())})
