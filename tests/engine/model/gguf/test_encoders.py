"""Encoders of pictures in GGUF files: which file is a model's, what Ollama's own files say, and what is refused."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import gguf
import pytest
import torch
from torch import Tensor

from engine.errors import ModelError
from engine.model.checkpoint import open_checkpoint
from engine.model.formats.packed import PackedWeight
from engine.model.gguf.pictures.contents import EncoderContents, contents_of_encoder
from engine.model.weight_loader import LazyPacked, LazyTensor
from engine.protocol.variants import find_projector
from tests.engine.gguf_ollama import write_ollama
from tests.engine.gguf_pictures import save_picture_gguf, write_encoder
from tests.engine.tensor_files import read_tensors
from tests.links import make_link

VOCABULARY = {
    token: number
    for number, token in enumerate(
        ("<pad>", "<start_of_image>", "<end_of_image>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "[IMG]",
         "[IMG_BREAK]", "[IMG_END]", "<|image>", "<image|>", "<|image|>")
    )
}  # fmt: skip


@cache
def made(kind: str) -> tuple[Path, Path]:
    return save_picture_gguf(kind, Path(mkdtemp()))


@cache
def text_of(kind: str) -> Mapping[str, object]:
    return open_checkpoint(str(made(kind)[1])).config


def contents(path: Path, kind: str) -> EncoderContents:
    return contents_of_encoder(path, text_of(kind), "tiny", VOCABULARY, "<pad>")


def refused(path: Path, kind: str) -> str:
    with pytest.raises(ModelError) as caught:
        contents(path, kind)
    return caught.value.message


def decoded(found: EncoderContents) -> dict[str, Tensor]:
    return {
        name: LazyPacked(weight, torch.float32)[...]
        if isinstance(weight, PackedWeight)
        else LazyTensor(weight, torch.float32)[...]
        for name, weight in found.weights.items()
    }


def of_gemma3(own: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    if own.startswith(("multi_modal_projector.", "vision_tower.")) and ".head." not in own:
        name = own.replace("vision_tower.embeddings", "v").replace("vision_tower", "v")
        name = name.replace("encoder.layers", "blk").replace("self_attn.out_proj", "attn_output")
        for part in "qkv":
            name = name.replace(f"self_attn.{part}_proj", f"attn_{part}")
        name = name.replace("input_projection_weight", "input_projection.weight").replace("multi_modal_projector", "mm")
        yield name, tensor + 1 if name.endswith("_norm.weight") else tensor


def of_qwen(own: str, tensor: Tensor, blocks: Mapping[str, str]) -> Iterator[tuple[str, Tensor]]:
    name = own.removeprefix("model.").replace("visual", "v").replace("blocks", "blk")
    for part, usual in blocks.items():
        name = name.replace(part, usual)
    if "attn.qkv" in name:
        for rows, letter in zip(tensor.chunk(3), "qkv", strict=True):
            yield name.replace("attn.qkv", f"attn_{letter}"), rows.contiguous()
    elif name.startswith("v."):
        yield name, tensor


def of_qwen25(own: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    if own.endswith("patch_embed.proj.weight"):
        yield from ((f"v.patch_embd_{index}.weight", tensor[:, :, index].contiguous()) for index in range(2))
        return
    gated = {f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")}
    yield from of_qwen(own, tensor, {**gated, "attn.proj": "attn_out", "norm1": "ln1", "norm2": "ln2"})


def of_qwen3(own: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    if own.endswith("patch_embed.proj.weight"):
        yield "v.patch_embed.weight", tensor.flatten(0, 1)
        return
    blocks = {"patch_embed.proj": "patch_embed", "attn.proj": "attn_out", "deepstack_merger_list": "deepstack_merger"}
    yield from of_qwen(own, tensor, blocks)


def of_mistral3(own: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    name = own.removeprefix("model.")
    if name.startswith(("multi_modal_projector.", "vision_tower.")):
        for part, usual in {
            "vision_tower": "v", "transformer.layers": "blk", "ln_pre": "encoder_norm",
            "attention.o_proj": "attn_output", "attention.q_proj": "attn_q", "attention.k_proj": "attn_k",
            "attention.v_proj": "attn_v", "attention_norm": "attn_norm", "feed_forward.gate_proj": "ffn_gate",
            "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down", "multi_modal_projector": "mm",
        }.items():  # fmt: skip
            name = name.replace(part, usual)
        yield name, tensor


def said(config: dict[str, Any]) -> dict[str, Any]:
    """What its converter says of every encoder."""
    vision = config["vision_config"]
    names = {
        "block_count": ("num_hidden_layers", "depth"), "embedding_length": ("hidden_size",),
        "image_size": ("image_size",), "feed_forward_length": ("intermediate_size",), "patch_size": ("patch_size",),
        "spatial_merge_size": ("spatial_merge_size",), "attention.head_count": ("num_attention_heads", "num_heads"),
    }  # fmt: skip
    found = {own: next((vision[key] for key in keys if key in vision), None) for own, keys in names.items()}
    return {f"vision.{own}": value for own, value in found.items() if value is not None}


def more_of(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    vision = config["vision_config"]
    if kind == "gemma3":
        return {"mm.tokens_per_image": config["mm_tokens_per_image"], "vision.attention.layer_norm_epsilon": 1e-6}
    if kind == "mistral3":
        return {"spatial_merge_size": config["spatial_merge_size"], "vision.rope.freq_base": 10_000.0}
    if kind == "qwen2_5_vl":
        return {"vision.fullatt_block_indexes": vision["fullatt_block_indexes"]}
    return {
        "vision.deepstack_visual_indexes": vision["deepstack_visual_indexes"], "vision.image_mean": [0.5, 0.5, 0.5],
        "vision.shortest_edge": 3136, "vision.longest_edge": 1_003_520, "vision.image_std": [0.5, 0.5, 0.5],
    }  # fmt: skip


OLLAMA: Mapping[str, tuple[str, Callable[[str, Tensor], Iterator[tuple[str, Tensor]]]]] = {
    "gemma3": ("gemma3", of_gemma3),
    "mistral3": ("mistral3", of_mistral3),
    "qwen2_5_vl": ("qwen25vl", of_qwen25),
    "qwen3_vl": ("qwen3vl", of_qwen3),
}


@pytest.mark.parametrize("kind", OLLAMA)
def test_encoders_of_ollama_are_the_same(kind: str, tmp_path: Path) -> None:
    folder, path = made(kind)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    architecture, convert = OLLAMA[kind]
    stored = read_tensors(folder / "model.safetensors")
    tensors = dict(pair for own, tensor in stored.items() for pair in convert(own, tensor))
    entries = {**said(config), **more_of(kind, config)}
    found = contents(write_ollama(tmp_path / "model.gguf", architecture, entries, tensors), kind)
    usual = contents(path.parent / "mmproj-F16.gguf", kind)
    differs = {"hidden_act"} if kind == "mistral3" else set[str]()
    vision, expected = (each.config.pop("vision_config") for each in (found, usual))
    assert isinstance(vision, dict)
    assert isinstance(expected, dict)
    assert {key: value for key, value in vision.items() if key not in differs} == {
        key: value for key, value in expected.items() if key not in differs
    }
    assert found.config == usual.config
    ours, theirs = ({**each.own, **each.whole} for each in (found, usual))
    for name in ("image_mean", "image_std"):
        colours, others = ours.pop(name), theirs.pop(name)
        assert kind == "qwen3_vl" or colours == pytest.approx(others), "the tiny one has not the published ones"
    assert ours == theirs
    weights, expected_weights = decoded(found), decoded(usual)
    assert weights.keys() == expected_weights.keys()
    assert all(torch.equal(weights[name], expected_weights[name]) for name in weights)


def test_numbers_that_limit_matrices_are_told_apart(tmp_path: Path) -> None:
    """Gemma 4's: one tensor in files of Ollama, and one for each number in llama.cpp's."""
    _, path = made("gemma4")
    original = gguf.GGUFReader(path.parent / "mmproj-F16.gguf")
    tensors = {each.name: torch.from_numpy(each.data.copy()) for each in original.tensors}
    layers, matrices = 2, ("attn_q", "attn_k", "attn_v", "attn_out", "ffn_gate", "ffn_up", "ffn_down")
    limits = torch.arange((layers * len(matrices) + 1) * 4).float()
    entries = {
        "vision.block_count": layers, "vision.embedding_length": 64, "vision.attention.head_count": 4,
        "vision.feed_forward_length": 96, "vision.patch_size": 4, "vision.projector.scale_factor": 2,
    }  # fmt: skip
    written = write_ollama(tmp_path / "model.gguf", "gemma4", entries, {**tensors, "v.clamp_data": limits})
    found = decoded(contents(written, "gemma4"))
    assert found["model.vision_tower.encoder.layers.1.mlp.down_proj.output_max"].item() == len(limits) - 5
    assert found["model.vision_tower.encoder.layers.0.self_attn.q_proj.input_max"].shape == ()


def beside(folder: Path, name: str, source: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    os.link(source, folder / name)
    return folder / name


def found_beside(folder: Path, model: Path, *others: tuple[str, Path]) -> str:
    for name, source in others:
        beside(folder, name, source)
    found = open_checkpoint(str(model)).encoder
    return found.name if found else ""


def test_the_best_of_several_numbers_formats_is_read(tmp_path: Path) -> None:
    _, path = made("gemma3")
    encoder, model = path.parent / "mmproj-F16.gguf", beside(tmp_path, "tiny-Q4_K_M.gguf", path)
    assert found_beside(tmp_path, model) == ""
    assert found_beside(tmp_path, model, ("mmproj-F32.gguf", encoder)) == "mmproj-F32.gguf"
    assert found_beside(tmp_path, model, ("mmproj-BF16.gguf", encoder)) == "mmproj-BF16.gguf"
    assert found_beside(tmp_path, model, ("mmproj-F16.gguf", encoder)) == "mmproj-F16.gguf"
    assert find_projector(each.name for each in tmp_path.iterdir()) == "mmproj-F16.gguf"


def test_in_a_folder_of_many_models_each_has_its_own(tmp_path: Path) -> None:
    """As in llama.cpp's cache; names of other models are no reason to take their encoders, nor is the kind alone."""
    gemma, qwen = made("gemma3")[1], made("qwen3_vl")[1]
    encoders = [path.parent / "mmproj-F16.gguf" for path in (gemma, qwen)]
    models = [
        beside(tmp_path, "org_gemma-a-GGUF_gemma-a-Q4_K_M.gguf", gemma),
        beside(tmp_path, "org_gemma-b-GGUF_gemma-b-Q4_K_M.gguf", gemma),
        beside(tmp_path, "org_qwen-GGUF_qwen-Q8_0.gguf", qwen),
    ]
    for name, source in (("gemma-a", encoders[0]), ("gemma-b", encoders[0]), ("qwen", encoders[1])):
        beside(tmp_path, f"org_{name}-GGUF_mmproj-{name}-f16.gguf", source)
    found = [open_checkpoint(str(model)).encoder for model in models]
    assert [each and each.name.split("_")[1] for each in found] == ["gemma-a-GGUF", "gemma-b-GGUF", "qwen-GGUF"]
    (tmp_path / "org_qwen-GGUF_mmproj-qwen-f16.gguf").unlink()
    assert open_checkpoint(str(models[2])).encoder is None


def test_a_file_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    model = beside(tmp_path, "tiny.gguf", made("gemma3")[1])
    (tmp_path / "mmproj-F16.gguf").write_bytes(b"GGUF")
    (tmp_path / "mmproj-BF16.gguf").mkdir()
    make_link(tmp_path / "mmproj-F32.gguf", made("gemma3")[1].parent / "mmproj-F16.gguf")  # it leads out
    assert open_checkpoint(str(model)).encoder is None


def test_a_blob_of_ollama_has_the_encoder_of_its_manifest(tmp_path: Path) -> None:
    path = made("gemma3")[1]
    model, encoder = (f"sha256-{letter * 64}" for letter in "ab")
    beside(tmp_path / "blobs", model, path)
    beside(tmp_path / "blobs", encoder, path.parent / "mmproj-F16.gguf")
    kinds = {"model": model, "projector": encoder}
    layers = [
        {"mediaType": f"application/vnd.ollama.image.{kind}", "digest": name.replace("-", ":")}
        for kind, name in kinds.items()
    ]
    manifest = tmp_path / "manifests" / "registry.ollama.ai" / "library" / "tiny" / "latest"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"layers": layers}))
    found = open_checkpoint(str(tmp_path / "blobs" / model)).encoder
    assert found is not None
    assert found.name == encoder


def test_an_unknown_projector_is_named(tmp_path: Path) -> None:
    folder, _ = made("gemma3")
    path = write_encoder("gemma3", folder, tmp_path / "mmproj.gguf", projector="minicpmv")
    assert "minicpmv" in refused(path, "gemma3")


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("vision.block_count", 0), ("vision.block_count", 1 << 20), ("vision.patch_size", 0),
        ("vision.projector.scale_factor", 0), ("vision.image_size", 0), ("vision.projection_dim", 65),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_are_refused(entry: str, value: int, tmp_path: Path) -> None:
    folder, _ = made("gemma3")
    path = write_encoder("gemma3", folder, tmp_path / "mmproj.gguf", changed={entry: value})
    assert refused(path, "gemma3")


def test_without_its_own_token_another_one_stands_for_rows() -> None:
    found = contents(made("gemma3")[1].parent / "mmproj-F16.gguf", "gemma3")
    assert found.tokens["image_token"] == "<pad>"
    assert found.config["image_token_index"] == 0
    with pytest.raises(ModelError, match="<start_of_image>"):
        contents_of_encoder(
            made("gemma3")[1].parent / "mmproj-F16.gguf", text_of("gemma3"), "tiny", {"<pad>": 0}, "<pad>"
        )


def test_gemma_4_sees_pictures_whole_unless_every_layer_has_embeddings(tmp_path: Path) -> None:
    path = made("gemma4")[1].parent / "mmproj-F16.gguf"
    for width, expected in ((32, None), (0, "vision")):
        text = {**text_of("gemma4"), "hidden_size_per_layer_input": width}
        config = contents_of_encoder(path, text, "tiny", VOCABULARY, "<pad>").config["text_config"]
        assert isinstance(config, dict)
        assert config.get("use_bidirectional_attention") == expected
