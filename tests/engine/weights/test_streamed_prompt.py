"""A prompt costs one pass over the layers that stream, however long it is."""

from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.model.checkpoint import open_checkpoint
from engine.model.context import PREFILL_ROWS, Context
from engine.model.network import Network
from engine.model.streamable_network import build_streamable
from engine.weights.codecs.codec import codec_named
from engine.weights.planning.arrangement import Tier
from engine.weights.planning.expert_ways import ExpertWay, Situation
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from tests.campaigns.extent import choose
from tests.engine.speculation.pairs import random_prompt
from tests.engine.tiny_models import save_tiny_model
from tests.engine.weights.stand_in import StandInCopyStream
from tests.engine.weights.test_expert_stream import PLENTY, always
from tests.engine.weights.test_layer_stream import CPU, pack

LONG = 4096
CHUNKS = 5


def never(_situation: Situation) -> ExpertWay:
    return "whole"


def packed(family: str, folder: Path, codec: str = "plain") -> tuple[Network, list[LayerLayout]]:
    save_tiny_model(family, folder)
    streamable = build_streamable(open_checkpoint(str(folder)), torch.float32, CPU)
    return streamable.network, pack(streamable, folder, codec)


def test_a_long_prompt_is_one_pass_over_the_layers(tmp_path: Path) -> None:
    network, layouts = packed("llama", tmp_path)
    tiers: list[Tier] = ["ram", "ssd", "ssd", "ssd"]
    for one_pass, count in ((True, 1), *choose((), ((False, LONG // PREFILL_ROWS),))):
        stream = LayerStream(list(network.layers), layouts, tiers)
        assert sorted(stream.load()) == [0, 1, 2, 3]
        Context(network, LONG, one_pass=one_pass).prefill(random_prompt(LONG, seed=1))
        assert stream.bytes_streamed == count * sum(layout.nbytes for layout in layouts[1:])
        stream.close()


@pytest.mark.parametrize(
    ("family", "codec"),
    choose(
        [("gpt_oss", "nf4"), ("gpt_oss", "plain")],
        list(product(("gpt_oss", "qwen3_moe", "mixtral"), ("plain", "nf4", "cast"))),
    ),
)
def test_experts_come_once_and_are_those_of_chunks_alone(family: str, codec: str, tmp_path: Path) -> None:
    network, layouts = packed(family, tmp_path, codec)
    decoders = None if codec == "plain" else [codec_named(codec)] * len(layouts)
    for choice, copy_stream in ((never, None), (always, None), (never, StandInCopyStream())):
        options = StreamOptions(expert_cache_bytes=PLENTY, choose=choice)
        stream = LayerStream(list(network.layers), layouts, ["ssd"] * 4, decoders, copy_stream, options)
        assert sorted(stream.load()) == [0, 1, 2, 3]
        expected = read(network, one_pass=False)
        before = stream.bytes_streamed
        for keys, others in zip(read(network, one_pass=True), expected, strict=True):
            assert torch.equal(keys, others)
        if choice is never:
            assert before == CHUNKS * (stream.bytes_streamed - before)
        stream.close()


def read(network: Network, one_pass: bool) -> list[Tensor]:
    """The keys of a prompt that is read in chunks."""
    context = Context(network, 64, one_pass=one_pass)
    context.prefill_rows = 8
    context.prefill(random_prompt(8 * CHUNKS - 4, seed=2))
    return [layer.keys[:, :, : layer.length] for layer in context._cache.attention]
