"""Packed checkpoints, streamed as they are stored: the same bits as the unpacked network, and not a byte more."""

import threading
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from torch import Tensor

from engine.loading.planning import needs_of
from engine.loading.stored_layers import StoredLayers, in_shards
from engine.model.checkpoint import Checkpoint
from engine.model.context import Context
from engine.model.formats.packed import PackedWeight
from engine.model.shape import model_sizes
from engine.model.streamable_network import StreamableNetwork, build_streamable, load_layerwise
from engine.weights.codecs.codec import Decoder
from engine.weights.planning.arrangement import Tier
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.experts.binding import find_experts
from engine.weights.streaming.experts.split_layout import split_layout
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from tests.campaigns.extent import choose
from tests.engine.packed_models import FP8, fp8_model, is_linear, packed_model
from tests.engine.resident import load_resident
from tests.engine.weights.stand_in import StandInCopyStream
from tests.engine.weights.test_layer_stream import passes

CPU = torch.device("cpu")
PATIENCE_SECONDS = 60
FEW = [("llama", "blocks"), ("llama", "tensor"), ("llama", "row"), ("qwen3_moe", "cut off"), ("gpt_oss", "mxfp4")]
OTHERS = [("llama", "cut off"), ("qwen3", "blocks"), ("mixtral", "tensor")]
CASES = choose(FEW, [*FEW, *OTHERS, *(("qwen3_moe", kind) for kind in FP8 if kind != "cut off")])


def resident(checkpoint: Checkpoint, dtype: torch.dtype) -> list[Tensor]:
    """Logits of the network with all weights decoded."""
    steps = load_layerwise(checkpoint, dtype, CPU)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return passes(Context(end.value, 96))


@cache
def expected_of(family: str, kind: str, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Logits of `packed_model(..., family, kind)` unpacked, as transformers loads it."""
    with TemporaryDirectory() as folder:
        return passes(Context(load_resident(packed_model(Path(folder), family, kind)[1], dtype, CPU), 96))


def stored_layers(streamable: StreamableNetwork) -> StoredLayers:
    """Its layers in the checkpoint's own files."""
    stored = in_shards(streamable.converter)
    assert stored is not None
    return stored


def streamed_of(checkpoint: Checkpoint, tiers: Sequence[Tier], cache_bytes: int = 0) -> list[Tensor]:
    """Logits of the checkpoint's network in float32, with its layers in these tiers."""
    return streamed(build_streamable(checkpoint, torch.float32, CPU), tiers, cache_bytes=cache_bytes)[0]


def streamed(
    streamable: StreamableNetwork,
    tiers: Sequence[Tier],
    copy_stream: StandInCopyStream | None = None,
    cache_bytes: int = 0,
) -> tuple[list[Tensor], LayerStream]:
    """Logits of the same network with its layers in these tiers, and the stream, which is closed."""
    stored = stored_layers(streamable)
    options = StreamOptions(expert_cache_bytes=cache_bytes, choose=lambda _situation: "single")
    stream = LayerStream(list(streamable.network.layers), stored.layouts, tiers, stored.decoders, copy_stream, options)
    try:
        list(stream.load())
        return passes(Context(streamable.network, 96)), stream
    finally:
        stream.close()


class Watched:
    """A decoder of one layer that does not begin before the next one has been read."""

    def __init__(self, decoder: Decoder, following: threading.Event | None) -> None:
        self._decoder = decoder
        self._following = following

    def decode(self, stored: Mapping[str, Tensor], name: str, out: Tensor) -> None:
        assert self._following is None or self._following.wait(PATIENCE_SECONDS), "nothing is read meanwhile"
        self._decoder.decode(stored, name, out)

    def product(self, stored: Mapping[str, Tensor], name: str, shape: tuple[int, int], turned: bool = False) -> None:
        """Nothing is multiplied as it is stored."""


def test_a_layer_is_read_while_the_one_before_it_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, _ = packed_model(tmp_path, "llama", "tensor")
    streamable = build_streamable(checkpoint, torch.float32, CPU)
    stored = stored_layers(streamable)
    assert stored.decoders is not None
    came = [threading.Event() for _ in stored.layouts]
    read = DiskReader.read

    def read_and_tell(reader: DiskReader, layout: LayerLayout, buffer: Tensor) -> None:
        read(reader, layout, buffer)
        came[layout.index].set()

    monkeypatch.setattr(DiskReader, "read", read_and_tell)
    watched = [Watched(*pair) for pair in zip(stored.decoders, [*came[1:], None], strict=True)]
    options = StreamOptions(disk_slots=2)
    tiers: list[Tier] = ["ssd"] * len(came)
    stream = LayerStream(list(streamable.network.layers), stored.layouts, tiers, watched, None, options)
    try:
        list(stream.load())
        assert same(passes(Context(streamable.network, 96)), expected_of("llama", "tensor"))
    finally:
        stream.close()


def same(found: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    """Bit for bit."""
    return all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


@pytest.mark.parametrize(("family", "kind"), CASES)
def test_streamed_equals_resident_equals_unpacked(family: str, kind: str, tmp_path: Path) -> None:
    packed, _ = packed_model(tmp_path, family, kind)
    expected = expected_of(family, kind)
    assert same(resident(packed, torch.float32), expected)
    tiers: list[Tier] = ["ram", "ssd", "ssd", "ram"]
    assert same(streamed_of(packed, tiers), expected)
    assert same(streamed(build_streamable(packed, torch.float32, CPU), tiers, StandInCopyStream())[0], expected)


@pytest.mark.parametrize(
    ("family", "kind"),
    choose(
        [("llama", "tensor"), ("qwen3_moe", "blocks"), ("gpt_oss", "mxfp4")],
        [("qwen3", "blocks"), ("llama", "tensor"), ("qwen3_moe", "blocks"), ("gpt_oss", "mxfp4")],
    ),
)
def test_transformers_unpacks_the_same(family: str, kind: str, tmp_path: Path) -> None:
    packed, _ = packed_model(tmp_path, family, kind)
    assert same(passes(Context(load_resident(packed, torch.float32, CPU), 96)), expected_of(family, kind))


@pytest.mark.parametrize(("family", "kind"), [("llama", "blocks"), ("qwen3_moe", "row"), ("gpt_oss", "mxfp4")])
def test_in_16_bits_they_are_rounded_once(family: str, kind: str, tmp_path: Path) -> None:
    packed, _ = packed_model(tmp_path, family, kind)
    expected = expected_of(family, kind, torch.bfloat16)
    assert same(resident(packed, torch.bfloat16), expected)
    found, _ = streamed(
        build_streamable(packed, torch.bfloat16, CPU), ["device", "ram", "ssd", "ssd"], StandInCopyStream()
    )
    assert same(found, expected)


@pytest.mark.parametrize(("family", "kind"), [("llama", "blocks"), ("qwen3_moe", "tensor"), ("gpt_oss", "mxfp4")])
def test_only_what_is_stored_is_streamed(family: str, kind: str, tmp_path: Path) -> None:
    packed, plain = packed_model(tmp_path, family, kind)
    streamable = build_streamable(packed, torch.float32, CPU)
    stored = stored_layers(streamable)
    in_layers = [weight for name, weight in packed.weights.items() if ".layers." in name]
    assert sum(tensor.nbytes for layout in stored.layouts for tensor in layout.tensors) == sum(
        weight.nbytes for weight in in_layers
    )
    assert sum(weight.elements for weight in in_layers) * 4 == sum(
        weight.nbytes for name, weight in plain.weights.items() if ".layers." in name
    )
    found, stream = streamed(streamable, ["ssd"] * 4)
    assert stream.bytes_streamed == (1 + len(found)) * sum(layout.nbytes for layout in stored.layouts)


def test_layers_that_are_packed_in_part(tmp_path: Path) -> None:
    """Attention and a whole layer as they were, some experts too."""

    def chosen(name: str) -> bool:
        return is_linear(name) and "self_attn" not in name and ".layers.2." not in name and ".experts.3." not in name

    packed, plain = fp8_model(tmp_path, "qwen3_moe", "blocks", chosen)
    assert 0 < len(packed.packed) < len(list(filter(is_linear, plain.tensors)))
    expected = passes(Context(load_resident(plain, torch.float32, CPU), 96))
    assert same(resident(packed, torch.float32), expected)
    assert same(streamed_of(packed, ["ram", "ssd", "ssd", "ssd"]), expected)


def test_packed_heads_are_decoded_once(tmp_path: Path) -> None:
    packed, plain = fp8_model(
        tmp_path, "llama", "row", lambda name: name in {"lm_head.weight", "model.layers.0.mlp.up_proj.weight"}
    )
    assert isinstance(packed.weights["lm_head.weight"], PackedWeight)
    expected = passes(Context(load_resident(plain, torch.float32, CPU), 96))
    assert same(streamed_of(packed, ["ssd"] * 4), expected)


@pytest.mark.parametrize(
    ("family", "kind", "tier"),
    choose(
        [("gpt_oss", "mxfp4", "ram"), ("gpt_oss", "mxfp4", "ssd"), ("qwen3_moe", "blocks", "ssd"),
         ("mixtral", "tensor", "ram")],
        [*product(("qwen3_moe", "mixtral"), FP8, ("ram", "ssd")), *product(["gpt_oss"], ["mxfp4"], ("ram", "ssd"))],
    ),
)  # fmt: skip
def test_packed_experts_are_brought_and_decoded_alone(family: str, kind: str, tier: Tier, tmp_path: Path) -> None:
    packed, _ = packed_model(tmp_path, family, kind)
    expected = expected_of(family, kind)
    streamable = build_streamable(packed, torch.float32, CPU)
    whole, all_of_them = streamed(streamable, [tier] * 4, StandInCopyStream())
    alone, stream = streamed(streamable, [tier] * 4, StandInCopyStream(), cache_bytes=1 << 22)
    assert same(whole, expected)
    assert same(alone, expected)
    assert stream.bytes_streamed < all_of_them.bytes_streamed


def test_resident_experts_are_decoded_alone(tmp_path: Path) -> None:
    packed, _ = packed_model(tmp_path, "qwen3_moe", "row")
    found, _ = streamed(build_streamable(packed, torch.float32, CPU), ["ram", "ram", "ssd", "ssd"], cache_bytes=1 << 20)
    assert same(found, expected_of("qwen3_moe", "row"))


def test_experts_that_differ_stay_together(tmp_path: Path) -> None:
    """One of a layer in 16 bits: the layer comes as a whole, and the plan says so."""
    packed, _ = fp8_model(
        tmp_path, "qwen3_moe", "row", lambda name: is_linear(name) and ".layers.0.mlp.experts.3.up" not in name
    )
    needs = needs_of(packed, model_sizes(packed), "auto", CPU)
    assert [layer.expert_bytes > 0 for layer in needs.layers] == [False, True, True, True]
    streamable = build_streamable(packed, torch.float32, CPU)
    layouts = stored_layers(streamable).layouts
    experts = find_experts(streamable.network.layers[0])
    assert experts
    splits = [split_layout(layout, experts.prefix, experts.count) for layout in layouts]
    assert [split is not None for split in splits] == [False, True, True, True]
    part = next(split for split in splits if split)
    weights = [weight for name, weight in packed.weights.items() if ".layers.1.mlp.experts.0." in name]
    assert part.expert_bytes == sum(weight.nbytes for weight in weights)
    found, _ = streamed(streamable, ["ssd"] * 4, cache_bytes=1 << 20)
    assert same(found, resident(packed, torch.float32))
