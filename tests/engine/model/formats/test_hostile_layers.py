"""Packed layers that lie: refused in a sentence when they are found, and harmless where only their numbers are odd."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import ModelError
from engine.model.formats.table import find_packed
from engine.model.safetensors_header import read_header
from tests.engine.model.formats.packed_files import LAYER, find_in, read_parts
from tests.engine.model.formats.test_packed_layers import AWQ, BNB, MODELOPT, VARIANTS, auto_round, config, gptq

STATE = "weight.quant_state.bitsandbytes__nf4"
PACK = config("pack-quantized", num_bits=4, group_size=32, strategy="group")
INT = config("int-quantized", num_bits=8, strategy="channel")
FLOAT = config("float-quantized", num_bits=8, type="float", strategy="block", block_structure=[16, 64])
NVFP4 = config("nvfp4-pack-quantized", num_bits=4, type="float", group_size=16)


@cache
def layer(variant: str) -> Mapping[str, Tensor]:
    """The tensors of a layer [40, 96]."""
    torch.manual_seed(0)
    return MappingProxyType(VARIANTS[variant][1](torch.randn(40, 96)).tensors)


def text(content: object) -> Tensor:
    """JSON, or bytes as they are, as a tensor."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return torch.tensor(list(data), dtype=torch.uint8)


def refused(folder: Path, packing: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """The sentence that refuses these tensors."""
    with pytest.raises(ModelError) as caught:
        find_in(folder, packing, tensors)
    assert len(caught.value.message) < 400
    return caught.value.message


GOOD = {"shape": [40, 96], "blocksize": 64, "nested_blocksize": 256, "nested_offset": 0.1}


@pytest.mark.parametrize(
    "state",
    [
        b"", b"\xff\xfe", b"{", b"[" * 4000, b"1e999", b" " * 5000, [40, 96], "nf4", {},
        {**GOOD, "shape": [40]}, {**GOOD, "shape": [40, 96, 1]}, {**GOOD, "shape": [40, -96]}, {**GOOD, "shape": "96"},
        {**GOOD, "shape": [True, 96]}, {**GOOD, "shape": [40.0, 96]}, {**GOOD, "shape": [1 << 40, 96]},
        {**GOOD, "shape": [0, 96]}, {**GOOD, "blocksize": 63}, {**GOOD, "blocksize": 0}, {**GOOD, "blocksize": 1 << 40},
        {**GOOD, "blocksize": None}, {**GOOD, "blocksize": [64]}, {**GOOD, "nested_blocksize": 3},
        {**GOOD, "nested_blocksize": -256}, {**GOOD, "nested_offset": "0"}, {**GOOD, "nested_offset": 10**400},
        {**GOOD, "nested_offset": 1e300}, {**GOOD, "nested_offset": float("nan")}, {**GOOD, "nested_offset": None},
    ],
)  # fmt: skip
def test_states_that_say_nothing_sensible_are_refused(state: object, tmp_path: Path) -> None:
    assert "does not say its shape" in refused(tmp_path, BNB, {**layer("nf4 nested"), STATE: text(state)})


def test_where_the_state_is_not_there_only_the_number_of_numbers_is_known(tmp_path: Path) -> None:
    """Of a model on the hub, the table alone may be known."""
    find_in(tmp_path, BNB, layer("nf4"))
    file = tmp_path / "layer.safetensors"
    size, table = file.stat().st_size, int.from_bytes(file.read_bytes()[:8], "little")
    file.write_bytes(file.read_bytes()[: 8 + table])
    (found,) = find_packed("it", {"quantization_config": BNB}, read_header(file, size)).values()
    assert found.is_flat
    assert found.elements == 40 * 96


Broken = tuple[str, Mapping[str, Any], Mapping[str, Tensor | None]]
"""A variant, what config.json says, and tensors that differ, or are missing."""

I32, U8, F16, F32 = torch.int32, torch.uint8, torch.float16, torch.float32
BROKEN: dict[str, Broken] = {
    "state of another shape": ("nf4 nested", BNB, {STATE: text({**GOOD, "shape": [40, 97]})}),
    "state of other blocks": ("nf4 nested", BNB, {STATE: text({**GOOD, "blocksize": 32})}),
    "state that is not nested": ("nf4 nested", BNB, {STATE: text({"shape": [40, 96], "blocksize": 64})}),
    "nf4 without codes": ("nf4", BNB, {"weight": None}),
    "nf4 of few codes": ("nf4", BNB, {"weight": torch.zeros(1919, 1, dtype=U8)}),
    "nf4 without absmax": ("nf4", BNB, {"weight.absmax": None}),
    "absmax of another type": ("nf4", BNB, {"weight.absmax": torch.zeros(60, dtype=F16)}),
    "few absmax": ("nf4 nested", BNB, {"weight.absmax": torch.zeros(59, dtype=U8)}),
    "few absmax levels": ("nf4 nested", BNB, {"weight.nested_quant_map": torch.zeros(255)}),
    "no absmax of groups": ("nf4 nested", BNB, {"weight.nested_absmax": None}),
    "many levels": ("nf4", BNB, {"weight.quant_map": torch.zeros(17)}),
    "int8 of few rows": ("int8", BNB, {"SCB": torch.zeros(39)}),
    "int8 that is none": ("int8", BNB, {"weight": torch.zeros(40, 96, dtype=U8)}),
    "int8 without codes": ("int8", BNB, {"weight": None}),
    "int8 in tiles": ("int8", BNB, {"weight_format": torch.ones((), dtype=U8)}),
    "gemv": ("awq", {**AWQ, "version": "gemv"}, {}),
    "awq of 8 bits": ("awq", {**AWQ, "bits": 8}, {}),
    "groups of another size": ("awq", {**AWQ, "group_size": 48}, {}),
    "groups that do not divide": ("awq", {**AWQ, "group_size": 64}, {}),
    "groups of no size": ("awq", {**AWQ, "group_size": 0}, {}),
    "groups of a huge size": ("gptq", gptq(group=1 << 40), {}),
    "groups of a word": ("gptq", {**gptq(), "group_size": "32"}, {}),
    "awq without zero points": ("awq", AWQ, {"qzeros": None}),
    "awq without scales": ("awq", AWQ, {"scales": None}),
    "awq of 3 dimensions": ("awq", AWQ, {"qweight": torch.zeros(2, 48, 5, dtype=I32)}),
    "awq of no rows": ("awq", AWQ, {"qweight": torch.zeros(96, 0, dtype=I32)}),
    "awq in bytes": ("awq", AWQ, {"qweight": torch.zeros(96, 5, dtype=U8)}),
    "gptq of 5 bits": ("gptq without order", gptq(5), {}),
    "gptq of other bits": ("gptq without order", gptq(8), {}),
    "marlin": ("gptq", gptq(checkpoint_format="marlin"), {}),
    "an odd version": ("gptq", gptq(checkpoint_format=["gptq"]), {}),
    "gptq of few zero points": ("gptq", gptq(), {"qzeros": torch.zeros(3, 4, dtype=I32)}),
    "gptq without zero points": ("gptq", gptq(), {"qzeros": None}),
    "gptq without scales": ("gptq", gptq(), {"scales": None}),
    "gptq of no groups": ("gptq", gptq(), {"scales": torch.zeros(0, 40, dtype=F16)}),
    "gptq of many groups": ("gptq", gptq(), {"scales": torch.zeros(97, 40, dtype=F16)}),
    "scales that are whole numbers": ("gptq", gptq(), {"scales": torch.zeros(3, 40, dtype=I32)}),
    "an order of other columns": ("gptq", gptq(), {"g_idx": torch.zeros(90, dtype=I32)}),
    "an order of no number": ("gptq", gptq(), {"g_idx": torch.zeros(96)}),
    "a shape that lies": ("pack 4", PACK, {"weight_shape": torch.tensor([40, 97])}),
    "a shape of other rows": ("pack 4", PACK, {"weight_shape": torch.tensor([41, 96])}),
    "a huge shape": ("pack 4", PACK, {"weight_shape": torch.tensor([40, 1 << 60])}),
    "a negative shape": ("pack 4", PACK, {"weight_shape": torch.tensor([40, -96])}),
    "a shape of 3": ("pack 4", PACK, {"weight_shape": torch.tensor([40, 96, 1])}),
    "no shape": ("pack 4", PACK, {"weight_shape": None}),
    "no scales": ("pack 4", PACK, {"weight_scale": None}),
    "few scales": ("pack 4", PACK, {"weight_scale": torch.zeros(40, 2)}),
    "few zero points": ("pack 4 asymmetric", PACK, {"weight_zero_point": torch.zeros(4, 3, dtype=I32)}),
    "odd zero points": ("pack 4 asymmetric", PACK, {"weight_zero_point": torch.zeros(5, 3)}),
    "a long order": ("pack 4", PACK, {"weight_g_idx": torch.zeros(97, dtype=I32)}),
    "5 bits": ("pack 4", config("pack-quantized", num_bits=5, group_size=32), {}),
    "bits of a word": ("pack 4", config("pack-quantized", num_bits="4", group_size=32), {}),
    "no groups of layers": ("pack 4", {**PACK, "config_groups": None}, {}),
    "odd groups of layers": ("pack 4", {**PACK, "config_groups": {"a": [1], "b": {"weights": []}}}, {}),
    "marlin 24": ("pack 4", {**PACK, "format": "marlin-24"}, {}),
    "an odd format": ("pack 4", {**PACK, "format": 7}, {}),
    "a format of many": ("pack 4", {**PACK, "format": [{}]}, {}),
    "an odd format of a group": ("pack 4", {**PACK, "config_groups": {"a": {"format": "sparse-bitmask"}}}, {}),
    "rotated activations": ("pack 4", {**PACK, "transform_config": {"config_groups": {"u": {}}}}, {}),
    "sparse": ("pack 4", PACK, {"bitmask": torch.zeros(40, 12, dtype=U8)}),
    "int of few scales": ("int channel", INT, {"weight_scale": torch.zeros(39, 1)}),
    "int of odd zero points": ("int channel", INT, {"weight_zero_point": torch.zeros(39, 1, dtype=torch.int8)}),
    "scales of no weight": ("int channel", INT, {"weight": None}),
    "scales of a weight of 16 bits": ("int channel", INT, {"weight": torch.zeros(40, 96, dtype=F16)}),
    "blocks of another size": ("float block", config("float-quantized", block_structure=[32, 64]), {}),
    "blocks of no size": ("float block", config("float-quantized", block_structure=[0, 64]), {}),
    "nvfp4 of few scales": ("nvfp4", NVFP4, {"weight_scale": torch.zeros(40, 5).to(torch.float8_e4m3fn)}),
    "nvfp4 of many scales": ("nvfp4", NVFP4, {"weight_global_scale": torch.zeros(2)}),
    "nvfp4 without its scale": ("nvfp4", NVFP4, {"weight_global_scale": None}),
    "nvfp4 that fills no group": ("nvfp4", NVFP4, {"weight_packed": torch.zeros(40, 47, dtype=U8)}),
    "awq gemv fast": ("awq gemv", {**AWQ, "version": "gemv_fast"}, {}),
    "awq gemv of small groups": ("awq gemv", {**AWQ, "version": "gemv", "group_size": 16}, {}),
    "awq gemv of GPTQModel": ("awq", {**AWQ, "version": None, "checkpoint_format": "gemv"}, {}),
    "awq gemv of few scales": ("awq gemv", {**AWQ, "version": "gemv"}, {"scales": torch.zeros(40, 3, dtype=F16)}),
    "awq gemv of many zero points": ("awq gemv", {**AWQ, "version": "gemv"}, {"qzeros": torch.zeros(40, 5, dtype=I32)}),
    "awq gemv without zero points": ("awq gemv", {**AWQ, "version": "gemv"}, {"qzeros": None}),
    "gptq marlin": ("gptq", gptq(is_marlin_format=True), {}),
    "gptq of no codes": ("gptq", gptq(group=-1), {"qweight": torch.zeros(0, 40, dtype=I32), "g_idx": None}),
    "auto-round of no known packing": ("auto-round", auto_round("auto_round:exllamav2"), {}),
    "auto-round of many packings": ("auto-round", auto_round(["auto_round"]), {}),
    "auto-round rotated": ("auto-round", auto_round("auto_round", rotation_config={"a": 1}), {}),
    "auto-round of activations": ("auto-round own", auto_round("auto_round"), {"act_scale": torch.ones(1)}),
    "auto-round of few zero points": (
        "auto-round",
        auto_round("auto_round"),
        {"qzeros": torch.zeros(3, 4, dtype=I32)},
    ),
    "activations scaled before": ("modelopt", MODELOPT, {"pre_quant_scale": torch.ones(96)}),
    "another algorithm": ("modelopt", {**MODELOPT, "quant_algo": "W4A8_AWQ"}, {}),
    "modelopt without its scale": ("modelopt", MODELOPT, {"weight_scale_2": None}),
    "modelopt in words": ("modelopt", MODELOPT, {"weight": torch.zeros(40, 12, dtype=I32)}),
    "modelopt fp8 of few scales": ("modelopt fp8", MODELOPT, {"weight_scale": torch.zeros(39)}),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_does_not_fit_is_refused(case: str, tmp_path: Path) -> None:
    variant, packing, changes = BROKEN[case]
    tensors: dict[str, Tensor | None] = {**layer(variant), **changes}
    message = refused(tmp_path, packing, {name: part for name, part in tensors.items() if part is not None})
    assert LAYER in message or "quantised already" in message


def test_expressions_of_strangers_are_never_run(tmp_path: Path) -> None:
    """This one would take longer than the universe is old."""
    packing = config("pack-quantized", num_bits=4, group_size=32, strategy="group")
    packing["config_groups"]["group_0"]["targets"] = ["re:(.*)*(.*)*(.*)*(.*)*x$"]
    assert find_in(tmp_path, {**packing, "ignore": ["re:((a+)+)+$"]}, layer("pack 4"))


NOISES: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda part: torch.randint(0, 256, (part.nbytes,), dtype=U8).view(part.dtype).view(part.shape),
    lambda part: torch.full((part.nbytes,), 255, dtype=U8).view(part.dtype).view(part.shape),
    lambda part: torch.full((part.nbytes,), 127, dtype=U8).view(part.dtype).view(part.shape),
)


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_content_makes_decoding_fail(variant: str, tmp_path: Path) -> None:
    weight = find_in(tmp_path, VARIANTS[variant][0], layer(variant))[f"{LAYER}.weight"]
    for noise in NOISES:
        parts = {role: noise(part) for role, part in read_parts(weight).items()}
        once, twice = torch.zeros(40, 96), torch.ones(40, 96)
        weight.format.decode(parts, once)
        weight.format.decode(parts, twice)
        assert torch.equal(once.view(I32), twice.view(I32))  # all of it is written, and the same each time


@pytest.mark.parametrize("order", [-1, -(2**31), 3, 2**31 - 1])
def test_groups_that_do_not_exist_are_never_read(order: int, tmp_path: Path) -> None:
    tensors = layer("gptq")
    plain = find_in(tmp_path, gptq(), tensors)[f"{LAYER}.weight"]
    expected, found = torch.empty(40, 96), torch.empty(40, 96)
    plain.format.decode(read_parts(plain), expected)
    parts = read_parts(plain) | {"order": tensors["g_idx"].clone().index_fill_(0, torch.tensor([95]), order)}
    plain.format.decode(parts, found)
    assert torch.equal(found, expected)  # a negative one says that the order is not in use; the last group is the last
