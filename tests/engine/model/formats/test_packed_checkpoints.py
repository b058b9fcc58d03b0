"""Whole checkpoints that other programs packed: loaded, streamed and talked with like the same ones unpacked."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import torch

from engine.model.context import Context
from engine.model.formats.packed import PackedWeight
from engine.model.streamable_network import build_streamable
from engine.weights.streaming.layer_stream import LayerStream
from tests.campaigns.extent import choose
from tests.engine.model.formats import checkpoints
from tests.engine.model.formats.checkpoints import Pair
from tests.engine.resident import load_resident
from tests.engine.speculation.pairs import random_prompt, write
from tests.engine.weights.test_layer_stream import passes
from tests.engine.weights.test_packed_stream import CPU, resident, same, stored_layers, streamed

MAKERS: dict[str, Callable[[Path, str], Pair]] = {
    "nf4": checkpoints.bitsandbytes,
    "fp4": lambda folder, family: checkpoints.bitsandbytes(folder, family, "fp4"),
    "nf4 flat": lambda folder, family: checkpoints.bitsandbytes(folder, family, "nf4 flat"),
    "int8": lambda folder, family: checkpoints.bitsandbytes(folder, family, "int8"),
    "awq": checkpoints.awq,
    "gptq": checkpoints.gptq,
    "gptq shuffled": lambda folder, family: checkpoints.gptq(folder, family, order="shuffled"),
    "gptq 8 bit": lambda folder, family: checkpoints.gptq(folder, family, 8),
    "compressed-tensors": checkpoints.compressed_tensors,
    "pack": lambda folder, family: checkpoints.compressed_tensors(folder, family, "pack"),
    "modelopt": checkpoints.modelopt,
}
MAIN = ("nf4", "int8", "awq", "gptq", "compressed-tensors", "modelopt")
FAMILIES = ("llama", "qwen3", "qwen3_moe")
TURNS = list(zip(MAIN, FAMILIES * 2, strict=True))


@pytest.mark.parametrize(("maker", "family"), choose(TURNS[::2], [*product(MAKERS, FAMILIES)]))
def test_streamed_equals_resident_equals_unpacked(maker: str, family: str, tmp_path: Path) -> None:
    packed, plain = MAKERS[maker](tmp_path, family)
    assert packed.packed
    expected = passes(Context(load_resident(plain, torch.float32, CPU), 96))
    assert same(resident(packed, torch.float32), expected)
    streamable = build_streamable(packed, torch.float32, CPU)
    found, stream = streamed(streamable, ["ssd", "ssd", "ssd", "ssd"])
    assert same(found, expected)
    layouts = stored_layers(streamable).layouts
    weights = [weight for name, weight in packed.weights.items() if ".layers." in name]
    assert sum(tensor.nbytes for layout in layouts for tensor in layout.tensors) == sum(w.nbytes for w in weights)
    assert stream.bytes_streamed == (1 + len(found)) * sum(layout.nbytes for layout in layouts)
    assert sum(isinstance(weight, PackedWeight) for weight in weights) == len(packed.packed)


@pytest.mark.parametrize(("maker", "family"), choose([("compressed-tensors", "qwen3_moe")], [*product(MAIN, FAMILIES)]))
def test_greedy_text_with_a_tree_is_that_of_the_unpacked_model(maker: str, family: str, tmp_path: Path) -> None:
    packed, plain = MAKERS[maker](tmp_path, family)
    unpacked, prompt = load_resident(plain, torch.float32, CPU), random_prompt(19, 0)
    expected = write(unpacked, None, prompt, 24, budget=0).tokens
    streamable = build_streamable(packed, torch.float32, CPU)
    stored = stored_layers(streamable)
    stream = LayerStream(list(streamable.network.layers), stored.layouts, ["ssd"] * 4, stored.decoders)
    try:
        list(stream.load())
        outcome = write(streamable.network, unpacked, prompt, 24, budget=64)
    finally:
        stream.close()
    assert outcome.tokens == expected
    assert len(outcome.rounds) < 12
