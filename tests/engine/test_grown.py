"""The model that the CUDA benchmark grows: another shape, the same text, and an honest table of weights."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFReader
from transformers import AutoModelForCausalLM

from engine.model.checkpoint import open_checkpoint
from engine.protocol.messages import ChatMessage
from engine.text.tokenizer import Tokenizer
from tests.bench.full_size_file import grown_llama, grown_mixture, write_full_size
from tests.bench.full_size_mixture import MIXTURES, MixtureShape
from tests.bench.grown import OWN_LAYERS, SHAPES, Shape, grow
from tests.bench.inflate import EMBEDDED
from tests.bench.programs import Coppice, Setup
from tests.campaigns.extent import choose, for_the_proofs
from tests.engine.gguf_files import write_gguf
from tests.engine.resident import load_resident
from tests.mixture_pair.folders import assemble

CPU = torch.device("cpu")
IDS = torch.arange(100, 164)[None]


MODELS = (Shape(10, 768, 1024, 6), Shape(9, 512, 768, 4), SHAPES["30b"].scaled(0.04))


@torch.inference_mode()
def logits(folder: Path) -> torch.Tensor:
    network = load_resident(open_checkpoint(str(folder)), torch.float32, CPU)
    found: torch.Tensor = network.model(IDS).logits
    return found


@for_the_proofs
@pytest.mark.parametrize(("shape", "noise"), choose([(MODELS[0], True)], [*product(MODELS, (False, True))]))
def test_a_grown_model_has_the_embedded_target_s_logits(shape: Shape, noise: bool, tmp_path: Path) -> None:
    found = logits(grow(tmp_path / "model", shape, noise))
    assert (found - logits(EMBEDDED)).abs().max() < 1e-3


def test_a_file_of_full_size_is_what_a_model_in_memory_would_be_written_as(tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(grow(tmp_path / "model", MODELS[1], noise=True), dtype=torch.bfloat16)
    usual = GGUFReader(write_gguf(tmp_path / "usual.gguf", model, "Q4_0", tokenizer=EMBEDDED))
    layer_by_layer = GGUFReader(write_full_size(tmp_path / "full.gguf", grown_llama(MODELS[1]), "Q4_0"))
    assert layer_by_layer.fields.keys() == usual.fields.keys()
    found = {tensor.name: tensor for tensor in layer_by_layer.tensors}
    assert found.keys() == {tensor.name for tensor in usual.tensors}
    for tensor in usual.tensors:
        other = found[tensor.name]
        assert (other.tensor_type, other.shape.tolist()) == (tensor.tensor_type, tensor.shape.tolist())
        # What is random is so in a way of its own.
        assert tensor.name.startswith(f"blk.{OWN_LAYERS}.") or np.array_equal(other.data, tensor.data)


def test_a_mixture_of_full_size_writes_the_trained_one_s_text(tmp_path: Path) -> None:
    shape = MixtureShape(layers=OWN_LAYERS + 2, hidden=512, dense=768, kv_heads=8, experts=40, chosen=8, inner=320)
    path = write_full_size(tmp_path / "full.gguf", grown_mixture(shape), "BF16")
    prompt = Tokenizer.open(EMBEDDED).encode_chat([ChatMessage("user", "Tell me a story about a dragon.")])
    texts = [
        Coppice(Setup("Coppice", str(model), weights="float32")).answer(prompt, 32).tokens
        for model in (assemble(tmp_path / "trained"), path)
    ]
    assert texts[0] == texts[1]


def test_the_mixtures_are_as_large_as_their_names_say() -> None:
    for name, shape in MIXTURES.items():
        sizes = [
            max(1, each.rows) * each.columns for part in grown_mixture(shape).parts.values() for each in part.values()
        ]
        assert 0.9 < sum(sizes) / int(name.partition("b")[0]) / 1e9 < 1.1


def test_the_shapes_are_as_large_as_their_names_say() -> None:
    for name, shape in SHAPES.items():
        heads, keys = shape.heads * 64, shape.kv_heads * 64
        layer = 2 * shape.hidden * heads + 2 * shape.hidden * keys + 3 * shape.hidden * shape.inner
        assert heads == shape.hidden
        assert 0.9 < shape.layers * layer / int(name.removesuffix("b")) / 1e9 < 1.1


@for_the_proofs
def test_zeros_take_no_room(tmp_path: Path) -> None:
    folder = grow(tmp_path / "model", Shape(12, 2048, 8192, 4))
    told = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if (folder / "model-00013-of-00013.safetensors").stat().st_blocks > 1 << 10:
        pytest.skip("this file system has no sparse files")
    assert sum(path.stat().st_blocks * 512 for path in folder.glob("*.safetensors")) < told / 2
