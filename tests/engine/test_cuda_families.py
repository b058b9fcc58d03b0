"""States, indexers, heads, packed weights and whole engines on a CUDA device: what they give on the processor."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.network import Network, wrap
from engine.model.streamable_network import build_streamable
from engine.protocol.options import LoadOptions, Place
from engine.weights.codecs.codec import codec_named
from engine.weights.planning.arrangement import Tier
from engine.weights.streaming.copy_stream import CudaCopyStream
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from tests.engine.exact_products import exact_products
from tests.engine.family_models import random_model, tiny_config
from tests.engine.model.state.test_hybrid_context import PROMPT, made, path_to, random_tree
from tests.engine.other_drafts import permuted, reduced
from tests.engine.packed_models import packed_model
from tests.engine.test_estimate import with_tokenizer
from tests.engine.test_heads import saved
from tests.engine.test_hybrid import NEW_TOKENS, answer, generated
from tests.engine.test_self_draft import answered, loaded
from tests.engine.text.conftest import EMBEDDED
from tests.engine.tiny_models import save_tiny_model, tiny_model
from tests.engine.weights.test_layer_stream import pack, passes
from tests.engine.weights.test_packed_stream import stored_layers

pytestmark = pytest.mark.gpu
CPU, DEVICE = torch.device("cpu"), torch.device("cuda")
STATES = ("qwen3_5_text", "falcon_h1", "jamba", "lfm2", "minimax")
INDEXED = ("glm_moe_dsa", "qwen4_exp_text", "minimax_m3_vl_text", "deepseek_v4")
TOLERANCE = 1e-3  # of the logits' deviation: sums in another order, in every layer
MIXES: tuple[list[Tier], ...] = (["ram"] * 4, ["ssd"] * 4, ["device", "ram", "ssd", "ram"])


@pytest.fixture(autouse=True)
def _exact() -> Iterator[None]:
    with exact_products():
        yield
    torch.cuda.empty_cache()


def assert_close(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """The same logits but for rounding."""
    for one, other in zip(found, expected, strict=True):
        assert float((one.cpu() - other.cpu()).abs().max() / other.std()) < TOLERANCE


def rounds(network: Network) -> list[Tensor]:
    """Logits of a tree, of one behind a path that was kept, and of one behind a rewind."""
    context = Context(network, 64)
    context.prefill(PROMPT)
    tokens, parents = random_tree(16, seed=1)
    found = [context.score(tokens, parents).clone()]
    context.keep(path_to(15, parents))
    more, above = random_tree(9, seed=2)
    found.append(context.score(more, above).clone())
    context.rewind(len(PROMPT) - 3)
    return [*found, context.score(more, above).clone()]


@pytest.mark.parametrize("family", [*STATES, *INDEXED])
def test_trees_on_states_and_indexed_attention(family: str) -> None:
    if family in INDEXED and not hasattr(transformers.cache_utils, "DynamicIndexedLayer"):
        pytest.skip("this version of transformers has no cache for indexed attention")
    on_device = wrap(random_model(tiny_config(family)).to(DEVICE), "eager", family)
    assert_close(rounds(on_device), rounds(made(family)))


# ---- weights that stream --------------------------------------------------------------------------------------------


def streamed(checkpoint: Checkpoint, tiers: list[Tier], device: torch.device, cache_bytes: int = 0) -> list[Tensor]:
    """Logits of a checkpoint whose layers stream as they are stored."""
    streamable = build_streamable(checkpoint, torch.float32, device)
    stored = stored_layers(streamable)
    copies = CudaCopyStream(device) if device == DEVICE else None
    options = StreamOptions(expert_cache_bytes=cache_bytes, choose=lambda _situation: "single")
    stream = LayerStream(list(streamable.network.layers), stored.layouts, tiers, stored.decoders, copies, options)
    try:
        list(stream.load())
        return passes(Context(streamable.network, 96))
    finally:
        stream.close()


@pytest.mark.parametrize("codec", ["nf4", "int8"])
def test_prepared_weights(codec: str, tmp_path: Path) -> None:
    save_tiny_model("llama", tmp_path / "model")
    checkpoint, found = open_checkpoint(str(tmp_path / "model")), []
    for device in (CPU, DEVICE):
        streamable = build_streamable(checkpoint, torch.float32, device)
        (tmp_path / device.type).mkdir(exist_ok=True)
        layouts = pack(streamable, tmp_path / device.type, codec)
        copies = CudaCopyStream(device) if device == DEVICE else None
        layers, decoders = list(streamable.network.layers), [codec_named(codec)] * len(layouts)
        stream = LayerStream(layers, layouts, ["ram", "ssd", "ssd", "ram"], decoders, copies)
        list(stream.load())
        found.append(passes(Context(streamable.network, 96)))
        stream.close()
    assert_close(found[1], found[0])


def _write_gguf(*arguments: Any, **options: Any) -> Path:
    """Without the package that writes such files, the other tests of this file run."""
    pytest.importorskip("gguf", reason="the package that writes GGUF files is not there")
    from tests.engine.gguf_files import write_gguf

    return write_gguf(*arguments, **options)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_K", "Q6_K", "Q8_0", "BF16"])
def test_gguf_files(kind: str, tmp_path: Path) -> None:
    model = tiny_model("llama", hidden_size=256, intermediate_size=256)
    checkpoint = open_checkpoint(str(_write_gguf(tmp_path / "model.gguf", model, kind)))
    expected = streamed(checkpoint, MIXES[0], CPU)
    for tiers in MIXES:
        assert_close(streamed(checkpoint, tiers, DEVICE), expected)


@pytest.mark.parametrize(
    ("family", "kind", "cache_bytes"),
    [("llama", "blocks", 0), ("llama", "row", 0), ("gpt_oss", "mxfp4", 0), ("qwen3_moe", "blocks", 1 << 22)],
)
def test_packed_checkpoints_and_experts_that_come_alone(
    family: str, kind: str, cache_bytes: int, tmp_path: Path
) -> None:
    checkpoint, _ = packed_model(tmp_path, family, kind)
    expected = streamed(checkpoint, MIXES[0], CPU)
    for tiers in MIXES:
        assert_close(streamed(checkpoint, tiers, DEVICE, cache_bytes), expected)


# ---- engines --------------------------------------------------------------------------------------------------------


def options(target: str, draft: str, place: Place, cache: Path) -> LoadOptions:
    return LoadOptions(
        target, draft, device=DEVICE.type, weights="float32", place=place, force=True, cache_dir=str(cache)
    )


@pytest.mark.parametrize("place", ["device", "ram", "ssd"])
def test_the_embedded_pair_answers_as_on_the_processor(place: Place, tmp_path: Path) -> None:
    plain, _ = loaded(LoadOptions(draft="none", device="cpu", weights="float32", cache_dir=str(tmp_path)))
    expected = answered(plain, "none").tokens
    engine, _ = loaded(options("embedded", "auto", place, tmp_path))
    for method, budget in (("none", 0), ("specexec", 8), ("specexec", 256), ("sequoia", 64), ("auto", 0)):
        assert answered(engine, method, budget).tokens == expected
    engine.close()


def test_a_gguf_pair_answers_as_its_folder(tmp_path: Path) -> None:
    files = {}
    for role in ("target", "draft"):
        folder = EMBEDDED.parent / f"demo-{role}"
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        files[role] = str(_write_gguf(tmp_path / f"{role}.gguf", model, "BF16", tokenizer=folder))
    texts = []
    for target, draft in (("embedded", "auto"), (files["target"], files["draft"])):
        engine, _ = loaded(options(target, draft, "ram", tmp_path))
        texts.append(answered(engine, "specexec").tokens)
        engine.close()
    assert texts[0] == texts[1]


@pytest.mark.parametrize("other", [permuted, reduced])
def test_a_draft_with_another_vocabulary(other: object, tmp_path: Path) -> None:
    assert callable(other)
    engine, _ = loaded(options("embedded", str(other(tmp_path / "draft")), "device", tmp_path))
    plain, drafted = answered(engine, "none"), answered(engine, "specexec", 24)
    assert drafted.tokens == plain.tokens
    assert drafted.statistics.passes < plain.statistics.passes
    engine.close()


@pytest.mark.parametrize("family", ["qwen3_5_text", "glm4_moe"])
def test_heads_of_a_checkpoint(family: str, tmp_path: Path) -> None:
    folder = saved(family, tmp_path / "model")
    engine, _ = loaded(options(str(folder), "heads", "ram", tmp_path))
    tokens, passes_made, _ = answer(engine, tuple(PROMPT), "specexec", 8)
    assert tokens == generated(folder, tuple(PROMPT))
    assert passes_made < NEW_TOKENS
    engine.close()


def test_a_hybrid_that_streams_and_drafts_for_itself(tmp_path: Path) -> None:
    folder = with_tokenizer(tmp_path / "model", "qwen3_5")
    engine, _ = loaded(options(str(folder), "self", "ssd", tmp_path))
    for budget in (8, 64):
        tokens, passes_made, _ = answer(engine, tuple(PROMPT), "specexec", budget)
        assert tokens == generated(folder, tuple(PROMPT))
        assert passes_made < NEW_TOKENS
    engine.close()
