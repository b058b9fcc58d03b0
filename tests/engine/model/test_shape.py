"""Sizes told from config.json and tables alone are those of the model that is really loaded, number by number."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from engine.errors import ModelError
from engine.loading.planning import Question, plan_pair
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.families.own_modules import WHOLE
from engine.model.network import Network
from engine.model.shape import ModelSizes, is_expert, model_sizes
from tests.campaigns.extent import choose
from tests.engine.family_models import tiny_config as family_config
from tests.engine.model.broken_folders import edit_json
from tests.engine.resident import load_resident
from tests.engine.tensor_files import read_tensors
from tests.engine.tiny_models import BASE, SOME, VOCABULARY, random_model, save_tiny_model, tiny_model

CPU = torch.device("cpu")


def sized(folder: Path) -> ModelSizes:
    return model_sizes(open_checkpoint(str(folder)))


def loaded(folder: Path, dtype: torch.dtype = torch.float32) -> Network:
    return load_resident(open_checkpoint(str(folder)), dtype, CPU)


def nbytes(module: Any) -> int:
    return sum(parameter.nbytes for parameter in module.parameters())


@pytest.mark.parametrize(
    ("family", "tied"),
    choose([("llama", True), *((family, False) for family in SOME)], list(product(SOME, (False, True)))),
)
def test_every_family_is_as_large_as_it_says(family: str, tied: bool, tmp_path: Path) -> None:
    save_tiny_model(family, tmp_path, tie_word_embeddings=tied, shard_size="200KB")
    sizes, network = sized(tmp_path), loaded(tmp_path)
    layers = [nbytes(layer) for layer in network.layers]
    assert [layer.elements * 4 for layer in sizes.layers] == layers
    assert [layer.stored_bytes for layer in sizes.layers] == layers
    assert sizes.rest_elements * 4 == nbytes(network.model) - sum(layers)
    assert sizes.elements * 4 == nbytes(network.model)
    assert sizes.vocabulary == network.vocabulary == VOCABULARY
    assert sizes.max_positions == network.max_positions == BASE["max_position_embeddings"]
    assert (sizes.hidden, sizes.heads) == (BASE["hidden_size"], BASE["num_attention_heads"])
    assert sizes.eager == (network.attention == "eager")


@pytest.mark.parametrize("dtype", choose([torch.bfloat16], [torch.float32, torch.bfloat16]))
@pytest.mark.parametrize("family", SOME)
def test_a_token_leaves_in_the_cache_what_was_said(family: str, dtype: torch.dtype, tmp_path: Path) -> None:
    save_tiny_model(family, tmp_path)
    context = Context(loaded(tmp_path, dtype), capacity=40)
    context.score([5, 6, 7], [-1, 0, 1])
    found = [(layer.keys.nbytes + layer.values.nbytes) // 40 for layer in context._cache.attention]
    sizes = sized(tmp_path)
    assert [layer.kv_width * dtype.itemsize for layer in sizes.layers if not layer.state] == found
    assert sizes.kv_width * dtype.itemsize == sum(found)
    states = [layer.state for layer in sizes.layers if layer.state]
    kept = context._cache.states
    assert kept.nbytes == sum(state.text_bytes(dtype.itemsize) for state in states)
    assert kept.pending_nbytes == 3 * sum(state.node_bytes(dtype.itemsize) for state in states)


@pytest.mark.parametrize(
    "keys",
    [{"multi_query": True}, {"multi_query": False}, {"new_decoder_architecture": True, "num_kv_heads": 2}],
)
def test_keys_of_falcon_are_counted_as_often_as_it_keeps_them(keys: dict[str, Any], tmp_path: Path) -> None:
    """Of 40B and 180B the library repeats those that heads share before it keeps them."""
    config = transformers.FalconConfig(
        hidden_size=64, num_attention_heads=4, num_hidden_layers=1, vocab_size=99, **keys
    )
    random_model(config).save_pretrained(tmp_path)
    context = Context(loaded(tmp_path), capacity=8)
    context.score([5], [-1])
    found = [(layer.keys.numel() + layer.values.numel()) // 8 for layer in context._cache.attention]
    assert [layer.kv_width for layer in sized(tmp_path).layers] == found


def test_a_16_bit_checkpoint_is_stored_in_two_bytes_a_number(tmp_path: Path) -> None:
    save_tiny_model("qwen3", tmp_path, dtype=torch.bfloat16)
    for layer in sized(tmp_path).layers:
        assert layer.stored_bytes == 2 * layer.elements
        assert {weight.dtype for weight in layer.weights} == {"BF16"}


def test_a_head_stored_beside_the_embedding_it_is_tied_to_counts_once(tmp_path: Path) -> None:
    model = tiny_model("llama", tie_word_embeddings=True)
    model.save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    tensors = read_tensors(weights)
    save_file({**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, weights, {"format": "pt"})
    assert sized(tmp_path).elements * 4 == nbytes(model) == nbytes(loaded(tmp_path).model)


def test_rotary_frequencies_of_old_checkpoints_are_no_weights(tmp_path: Path) -> None:
    model = tiny_model("llama")
    model.save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    old = {f"model.layers.{layer}.self_attn.rotary_emb.inv_freq": torch.ones(8) for layer in range(4)}
    save_file({**read_tensors(weights), **old}, weights, {"format": "pt"})
    assert sized(tmp_path).elements * 4 == nbytes(model)


@pytest.mark.parametrize(("family", "experts", "chosen"), [("mixtral", 4, 2), ("qwen3_moe", 8, 2), ("gpt_oss", 4, 2)])
def test_a_token_meets_only_the_experts_it_is_routed_to(family: str, experts: int, chosen: int, tmp_path: Path) -> None:
    model = tiny_model(family)
    model.save_pretrained(tmp_path)
    for layer, module in zip(sized(tmp_path).layers, model.model.layers, strict=True):
        routed = sum(p.numel() for name, p in module.named_parameters() if ".experts." in f".{name}")
        assert layer.elements - layer.active_elements == routed * (experts - chosen) // experts > 0


@pytest.mark.parametrize(
    "family",
    choose(
        ("gemma4_text", "granitemoe", "hunyuan_v1_moe", "dbrx"),
        (
            "gemma4_text", "granitemoe", "granitemoeshared", "hunyuan_v1_moe", "dbrx", "ernie4_5_moe", "longcat_flash",
            "aria_text", "jetmoe", "llama4_text", "deepseek_v2", "cohere2_moe", "nemotron_h", "solar_open",
        ),
    ),
)  # fmt: skip
def test_whatever_a_family_calls_its_experts_they_are_counted_and_planned(family: str, tmp_path: Path) -> None:
    config = family_config(family)
    if family == "gemma4_text":
        config.enable_moe_block, config.num_experts, config.top_k_experts = True, 8, 2
        config.moe_intermediate_size = 64
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    layers = model_sizes(checkpoint).layers
    assert {(layer.experts, layer.chosen) for layer in layers if layer.experts} == (
        set() if family in WHOLE else {(8, 2)}
    )
    routed = [layer for layer in layers if any(map(is_expert, layer.weights))]
    assert routed
    assert all((layer.active_elements < layer.elements) == (family != "llama4_text") for layer in routed)
    assert plan_pair(checkpoint, None, CPU, Question(context_tokens=64)).fits


def test_every_number_of_a_dense_layer_meets_every_token(tmp_path: Path) -> None:
    save_tiny_model("phi3", tmp_path)
    assert all(layer.active_elements == layer.elements for layer in sized(tmp_path).layers)


def test_mxfp4_experts_count_as_the_numbers_they_mean(tmp_path: Path) -> None:
    """gpt-oss as it is published: two numbers a byte, one scale for 32 of them."""
    model = tiny_model("gpt_oss")
    model.save_pretrained(tmp_path)
    expected = sized(tmp_path)
    tensors = read_tensors(tmp_path / "model.safetensors")
    for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, columns, rows = tensors.pop(name).shape
        tensors[f"{name}_blocks"] = torch.zeros(experts, rows, columns // 32, 16, dtype=torch.uint8)
        tensors[f"{name}_scales"] = torch.zeros(experts, rows, columns // 32, dtype=torch.uint8)
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    edit_json(tmp_path / "config.json", quantization_config={"quant_method": "mxfp4"})
    packed = sized(tmp_path)
    assert [layer.elements for layer in packed.layers] == [layer.elements for layer in expected.layers]
    assert [layer.active_elements for layer in packed.layers] == [layer.active_elements for layer in expected.layers]
    assert packed.layers[0].stored_bytes < expected.layers[0].stored_bytes / 3


def test_of_two_lists_of_layers_the_language_models_counts(tmp_path: Path) -> None:
    """An image encoder in front of the model, and a config that describes the language model one level down."""
    save_tiny_model("llama", tmp_path)
    alone = sized(tmp_path)
    weights = tmp_path / "model.safetensors"
    encoder = {f"model.vision.layers.{layer}.q_proj.weight": torch.zeros(4, 4) for layer in range(6)}
    save_file({**read_tensors(weights), **encoder}, weights, {"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "seeing_llama", "text_config": config}))
    both = sized(tmp_path)
    assert both.layers == alone.layers
    assert both.rest_elements == alone.rest_elements + 6 * 16


def test_compressed_keys_and_values_are_counted_as_the_cache_keeps_them(tmp_path: Path) -> None:
    """Multi-head latent attention: stored compressed, cached in full width for every head."""
    save_tiny_model("llama", tmp_path)
    weights = tmp_path / "model.safetensors"
    apart = ("k_proj.weight", "v_proj.weight", "q_proj.weight")
    save_file({n: t for n, t in read_tensors(weights).items() if not n.endswith(apart)}, weights, {"format": "pt"})
    edit_json(tmp_path / "config.json", kv_lora_rank=8, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12)
    assert sized(tmp_path).layers[0].kv_width == 8 + 8


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"num_hidden_layers": 5}, "says 5 layers, which its weights do not hold"),
        ({"num_hidden_layers": 10**30}, "which its weights do not hold"),
        ({"num_kv_shared_layers": 4}, "no layer has keys and values of its own"),
        ({"cross_attention_layers": [[1]]}, r"says '\[\[1\]\]' layers, which its weights do not hold"),
        ({"quantization_config": {"quant_method": "aqlm"}}, "quantised already, by 'aqlm'"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "cannot hold a token tree: it has linear attention"),
    ],
)
def test_what_cannot_be_sized_is_refused_in_a_sentence(entries: dict[str, Any], words: str, tmp_path: Path) -> None:
    save_tiny_model("llama", tmp_path)
    edit_json(tmp_path / "config.json", **entries)
    with pytest.raises(ModelError, match=words) as refusal:
        sized(tmp_path)
    assert refusal.value.hint


def test_a_model_without_attention_is_refused(tmp_path: Path) -> None:
    save_file({"backbone.layers.0.mixer.in_proj.weight": torch.zeros(8, 4)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "rwkv", "num_hidden_layers": 1}')
    with pytest.raises(ModelError, match="without keys and values"):
        sized(tmp_path)
