"""Models built layer by layer: the same bits as a model loaded whole, the same refusals, and no reading ahead."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers.core_model_loading import MergeModulelist

from engine.errors import ModelError
from engine.model import layer_converter
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.layer_converter import ExpertStack, open_layer_converter
from engine.model.network import Network
from engine.model.streamable_network import StreamableNetwork, build_streamable
from engine.model.weight_loader import LazyTensor
from tests.campaigns.extent import choose
from tests.engine.model.broken_folders import edit_json
from tests.engine.resident import load_resident
from tests.engine.tensor_files import read_tensors
from tests.engine.tiny_models import SOME, save_tiny_model, tiny_model

CPU = torch.device("cpu")
FUSED = ("mixtral", "qwen3_moe")
TOKENS, PARENTS = [5, 6, 7, 8, 9], [-1, 0, 0, 1, 3]


def save(family: str, folder: Path, **overrides: Any) -> Checkpoint:
    save_tiny_model(family, folder, **overrides, shard_size="200KB")
    return open_checkpoint(str(folder))


def fill(streamable: StreamableNetwork) -> Network:
    for index, layer in enumerate(streamable.network.layers):
        layer.load_state_dict(dict(streamable.converter.weights(index)), assign=True)
    return streamable.network


def assert_same(built: Network, loaded: Network) -> None:
    """Every weight, every buffer, every fact, and the logits of a tree: equal to the last bit."""
    for kind in ("named_parameters", "named_buffers"):
        expected = dict(getattr(loaded.model, kind)())
        found = dict(getattr(built.model, kind)())
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            assert found[name].dtype == tensor.dtype, name
            assert torch.equal(found[name], tensor), name
    for fact in ("spans", "attention", "dtype", "device", "vocabulary", "max_positions"):
        assert getattr(built, fact) == getattr(loaded, fact), fact
    assert torch.equal(Context(built, 16).score(TOKENS, PARENTS), Context(loaded, 16).score(TOKENS, PARENTS))


@pytest.mark.parametrize("dtype", choose([torch.float32], [torch.float32, torch.bfloat16, torch.float16]), ids=str)
@pytest.mark.parametrize("family", SOME)
def test_layers_filled_one_by_one_equal_a_model_loaded_whole(family: str, dtype: torch.dtype, tmp_path: Path) -> None:
    checkpoint = save(family, tmp_path)
    streamable = build_streamable(checkpoint, dtype, CPU)
    assert all(weight.is_meta for weight in streamable.network.layers.parameters())
    loaded = load_resident(checkpoint, dtype, CPU)
    for index, layer in enumerate(loaded.layers):
        shapes = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in layer.state_dict().items()}
        assert streamable.converter.shapes(index) == shapes
    assert_same(fill(streamable), loaded)


@pytest.mark.parametrize("family", SOME)
def test_tied_embeddings_stay_tied(family: str, tmp_path: Path) -> None:
    checkpoint = save(family, tmp_path, tie_word_embeddings=True)
    network = build_streamable(checkpoint, torch.float32, CPU).network
    assert network.model.lm_head.weight is network.model.model.embed_tokens.weight
    assert "lm_head.weight" not in checkpoint.tensors


def test_a_head_that_is_stored_in_place_of_the_embedding_serves_as_both(tmp_path: Path) -> None:
    save("llama", tmp_path, tie_word_embeddings=True)
    (tmp_path / "model.safetensors.index.json").unlink()
    tensors: dict[str, torch.Tensor] = {}
    for shard in tmp_path.glob("*.safetensors"):
        tensors |= read_tensors(shard)
        shard.unlink()
    tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    checkpoint = open_checkpoint(str(tmp_path))
    assert_same(fill(build_streamable(checkpoint, torch.float32, CPU)), load_resident(checkpoint, torch.float32, CPU))


def test_a_checkpoint_of_the_bare_model_loads_without_its_prefix(tmp_path: Path) -> None:
    model = tiny_model("llama", tie_word_embeddings=True)
    model.save_pretrained(tmp_path)
    tensors = read_tensors(tmp_path / "model.safetensors")
    bare = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    save_file(bare, tmp_path / "model.safetensors", {"format": "pt"})
    checkpoint = open_checkpoint(str(tmp_path))
    streamable = build_streamable(checkpoint, torch.float32, CPU)
    assert streamable.converter.one_to_one(0) is not None
    assert_same(fill(streamable), load_resident(checkpoint, torch.float32, CPU))


@pytest.mark.parametrize("family", SOME)
def test_one_to_one_says_where_the_very_bytes_lie(family: str, tmp_path: Path) -> None:
    converter = open_layer_converter(save(family, tmp_path), torch.float32)
    for index in range(len(converter)):
        places = converter.one_to_one(index)
        if family in FUSED:
            assert places is None
            continue
        assert places is not None
        tensors = dict(converter.weights(index))
        assert places.keys() == tensors.keys()
        for name, info in places.items():
            stored = info.shard.read_bytes()[info.begin : info.end]
            assert stored == tensors[name].numpy().tobytes(), name
            assert info.shape == tuple(tensors[name].shape)


@pytest.mark.parametrize("family", ["llama", *FUSED])
def test_only_the_layer_asked_for_is_read(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = save(family, tmp_path)
    read: list[str] = []
    original = LazyTensor.__getitem__

    def spy(self: Any, everything: Any) -> Any:
        read.extend(name for name, info in checkpoint.tensors.items() if info.begin == self.info.begin)
        return original(self, everything)

    monkeypatch.setattr(LazyTensor, "__getitem__", spy)
    converter = open_layer_converter(checkpoint, torch.float32)
    assert not read, "the table is enough to settle everything"
    expected = {name for name, info in checkpoint.tensors.items() if ".layers.2." in name}
    offsets = {checkpoint.tensors[name].begin for name in expected}
    dict(converter.weights(2))
    assert expected <= set(read)
    assert {checkpoint.tensors[name].begin for name in read} == offsets


@pytest.mark.parametrize("family", FUSED)
def test_experts_are_fused_a_few_at_a_time(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    converter = open_layer_converter(save(family, tmp_path), torch.bfloat16)
    at_once = dict(converter.weights(1))
    for nbytes in (1, 40_000):  # an expert at a time; some, and fewer at the end
        monkeypatch.setattr(layer_converter, "STACK_BYTES", nbytes)
        piecemeal = dict(converter.weights(1))
        assert piecemeal.keys() == at_once.keys()
        assert all(torch.equal(piecemeal[name], at_once[name]) for name in at_once)


@pytest.mark.parametrize("family", FUSED)
def test_experts_that_only_fuse_together_are_fused_together(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    converter = open_layer_converter(save(family, tmp_path), torch.float32)
    expected = dict(converter.weights(1))
    monkeypatch.setattr(layer_converter, "STACK_BYTES", 1)
    monkeypatch.setattr(ExpertStack, "part", lambda self, begin, end: dict(self.sources))
    found = dict(converter.weights(1))
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_numbers_are_converted_in_pieces_as_they_would_be_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = save("llama", tmp_path)
    expected = load_resident(checkpoint, torch.bfloat16, CPU).layers[0].state_dict()
    monkeypatch.setattr("engine.model.weight_loader.PIECE_BYTES", 1000)
    found = dict(open_layer_converter(checkpoint, torch.bfloat16).weights(0))
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.fixture
def packed_gpt_oss(tmp_path: Path) -> Checkpoint:
    """gpt-oss as it is published: its experts in MXFP4, two numbers a byte and a scale for every 32."""
    save_tiny_model("gpt_oss", tmp_path, dtype=torch.bfloat16)
    tensors = read_tensors(tmp_path / "model.safetensors")
    generator = torch.Generator().manual_seed(0)
    for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, columns, rows = tensors.pop(name).shape
        shape = (experts, rows, columns // 32)
        tensors[f"{name}_blocks"] = torch.randint(0, 256, (*shape, 16), generator=generator).to(torch.uint8)
        tensors[f"{name}_scales"] = torch.randint(118, 124, shape, generator=generator).to(torch.uint8)
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    edit_json(tmp_path / "config.json", quantization_config={"quant_method": "mxfp4"})
    return open_checkpoint(str(tmp_path))


@pytest.mark.parametrize("stack_bytes", [1, 64 << 20])
@pytest.mark.parametrize("dtype", choose([torch.bfloat16], [torch.float32, torch.bfloat16]), ids=str)
def test_published_gpt_oss_is_unpacked(
    packed_gpt_oss: Checkpoint, dtype: torch.dtype, stack_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_converter, "STACK_BYTES", stack_bytes)
    streamable = build_streamable(packed_gpt_oss, dtype, CPU)
    assert streamable.converter.one_to_one(0) is None
    assert_same(fill(streamable), load_resident(packed_gpt_oss, dtype, CPU))


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    save_tiny_model("llama", tmp_path)
    return tmp_path


@pytest.mark.parametrize("method", ["quark", "aqlm", "nonsense"])
def test_weights_quantised_by_others_are_refused_by_name(llama: Path, method: str) -> None:
    edit_json(llama / "config.json", quantization_config={"quant_method": method})
    with pytest.raises(ModelError, match=f"quantised already, by '{method}'"):
        build_streamable(open_checkpoint(str(llama)), torch.float32, CPU)


def test_a_missing_weight_is_named(llama: Path) -> None:
    tensors = read_tensors(llama / "model.safetensors")
    del tensors["model.layers.2.mlp.up_proj.weight"]
    save_file(tensors, llama / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks the weights model\.layers\.2\.mlp\.up_proj\.weight"):
        build_streamable(open_checkpoint(str(llama)), torch.float32, CPU)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried to"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_memory_that_runs_out_while_experts_are_stacked_is_no_fault_of_the_files(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library keeps what its conversions raise to itself."""
    streamable = build_streamable(save("qwen3_moe", tmp_path), torch.float32, CPU)

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(MergeModulelist, "convert", fail)
    with pytest.raises(MemoryError):
        dict(streamable.converter.weights(0))
    error.args = ("stack expects each tensor to be equal size",)
    if type(error) is RuntimeError:
        with pytest.raises(ModelError, match="cannot be converted to the shape"):
            dict(streamable.converter.weights(0))


def test_a_missing_expert_is_refused(tmp_path: Path) -> None:
    save_tiny_model("mixtral", tmp_path)
    tensors = read_tensors(tmp_path / "model.safetensors")
    gone = next(name for name in tensors if ".experts.1." in name)
    del tensors[gone]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError):
        build_streamable(open_checkpoint(str(tmp_path)), torch.float32, CPU)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"intermediate_size": 128}, "another shape than its config.json says"),
        ({"vocab_size": 140}, "another shape than its config.json says"),
        ({"num_hidden_layers": 3}, "more layers than its config.json says"),
        ({"num_hidden_layers": 5}, "lacks the weights"),
        ({"model_type": "gpt99"}, "does not know"),
        ({"model_type": "bert"}, "cannot be loaded|not a text-generation model|lacks the weights|cannot hold"),
        ({"hidden_size": "wide"}, "cannot be loaded"),
        ({"num_attention_heads": 0}, "cannot be loaded"),
        ({"hidden_act": "no-such-function"}, "cannot be loaded"),
    ],
)
def test_a_config_that_disagrees_is_one_sentence(llama: Path, entries: dict[str, Any], words: str) -> None:
    edit_json(llama / "config.json", **entries)
    with pytest.raises(ModelError, match=words) as refusal:
        build_streamable(open_checkpoint(str(llama)), torch.float32, CPU)
    assert "\n" not in str(refusal.value)


def test_a_shard_that_shrinks_while_it_is_used_is_an_error_not_a_wrong_weight(llama: Path) -> None:
    converter = open_layer_converter(open_checkpoint(str(llama)), torch.float32)
    with (llama / "model.safetensors").open("r+b") as shard:
        shard.truncate(200_000)
    with pytest.raises(ModelError, match="ended early"):
        dict(converter.weights(3))
    (llama / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        dict(converter.weights(0))


def test_a_failed_layer_does_not_spoil_the_next(llama: Path) -> None:
    converter = open_layer_converter(open_checkpoint(str(llama)), torch.float32)
    shapes = converter.shapes(1)
    expected = dict(converter.weights(1))
    whole = (llama / "model.safetensors").read_bytes()
    (llama / "model.safetensors").write_bytes(whole[:200_000])
    with pytest.raises(ModelError):
        dict(converter.weights(1))
    (llama / "model.safetensors").write_bytes(whole)
    assert converter.shapes(1) == shapes
    found = dict(converter.weights(1))
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_the_config_names_no_code_to_run(llama: Path) -> None:
    marker = llama / "ran"
    (llama / "modeling_evil.py").write_text(f"open({str(marker)!r}, 'w')\n")
    config = json.loads((llama / "config.json").read_text())
    (llama / "config.json").write_text(
        json.dumps({**config, "auto_map": {"AutoModelForCausalLM": "modeling_evil.Evil"}})
    )
    build_streamable(open_checkpoint(str(llama)), torch.float32, CPU)
    assert not marker.exists()
