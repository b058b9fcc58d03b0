"""Packed checkpoints from end to end: planned for, loaded, answered with, prepared, and refused where broken."""

import shutil
from collections.abc import Callable, Generator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.engine import load
from engine.errors import Cancellation, ModelError
from engine.loading.loading import LoadedTarget
from engine.loading.measurements.benchmark import benchmark_of
from engine.loading.pair import open_pair
from engine.loading.planning import Question, needs_of, plan_pair
from engine.loading.preparation import prepare_model
from engine.loading.stored_layers import in_shards
from engine.model.architecture import open_architecture
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.layer_converter import open_layer_converter
from engine.model.model_folder import find_model
from engine.model.shape import model_sizes
from engine.model.streamable_network import build_streamable
from engine.protocol.messages import Loaded
from engine.protocol.options import LoadOptions
from engine.weights.store.layout import PAGE
from engine.weights.store.prepared_model import list_prepared, open_prepared
from tests.campaigns.extent import choose
from tests.engine.packed_models import FILE, FP8, edit_json, fp8, fp8_model, is_linear, pack, packed_model
from tests.engine.resident import load_resident
from tests.engine.speculation.pairs import noisy_copy, random_prompt, write
from tests.engine.tensor_files import read_tensors
from tests.engine.test_cli_plan import document
from tests.engine.test_cli_plan import run as plan_command
from tests.engine.test_loading import loaded, row_by_row, shift_weights

CPU = torch.device("cpu")
TEXT_TOKENS = 20
Place = Literal["auto", "ram", "ssd"]
PLACES: tuple[Place, ...] = ("auto", "ram", "ssd")  # "auto": decoded once and for good, where that fits


def streamed(checkpoint: Checkpoint, cache: Path, place: Place) -> LoadedTarget:
    return loaded(checkpoint, LoadOptions(weights="float32", place=place, cache_dir=str(cache)))


@pytest.mark.parametrize(
    ("family", "kind"), [("llama", "blocks"), *choose([], [("qwen3_moe", "row")]), ("gpt_oss", "mxfp4")]
)
def test_greedy_text_with_trees_is_what_transformers_generates(family: str, kind: str, tmp_path: Path) -> None:
    packed, plain = packed_model(tmp_path, family, kind)
    prompt = random_prompt(19, seed=3)
    reference = load_resident(plain, torch.float32, CPU).model.generate(
        torch.tensor([prompt]), max_new_tokens=TEXT_TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    target = streamed(packed, tmp_path / "cache", "ssd")
    outcome = write(target.network, noisy_copy(family), prompt, TEXT_TOKENS, budget=32)
    target.close()
    assert outcome.tokens == reference[0, len(prompt) :].tolist()
    assert len(outcome.rounds) < TEXT_TOKENS
    assert list_prepared(tmp_path / "cache") == ()


@pytest.mark.parametrize(
    ("family", "kind"), [("llama", "tensor"), ("qwen3_moe", "blocks"), *choose([], [("gpt_oss", "mxfp4")])]
)
def test_wherever_layers_live_the_numbers_are_the_same(family: str, kind: str, tmp_path: Path) -> None:
    folder = packed_model(tmp_path, family, kind)[0].path
    for file in folder.glob("*.safetensors"):
        shift_weights(file, 8)
    packed = open_checkpoint(str(folder))
    found = {}
    for place in PLACES:
        target = streamed(packed, tmp_path / "cache", place)
        found[place] = row_by_row(target)
        weights = [each for each in target.network.model.parameters() if type(each) is nn.Parameter and each.ndim > 1]
        off = {each.data_ptr() % 16 for each in weights if each.dtype == torch.float32}
        assert off == {0}, "not even a router lies where some processors' libraries would round otherwise"
        assert target.stored_as == ("" if place == "auto" else "MXFP4" if kind == "mxfp4" else "FP8")
        target.close()
    assert torch.equal(found["auto"], found["ram"])
    assert torch.equal(found["auto"], found["ssd"])


@pytest.mark.parametrize(("family", "kind"), [("llama", "row"), ("mixtral", "blocks"), ("gpt_oss", "mxfp4")])
def test_the_plan_counts_what_is_stored(family: str, kind: str, tmp_path: Path) -> None:
    packed, plain = packed_model(tmp_path, family, kind)
    sizes, needs = model_sizes(packed), needs_of(packed, model_sizes(packed), "auto", CPU)
    assert needs.codec == "packed"
    assert sizes.formats == (("MXFP4" if kind == "mxfp4" else "FP8"),)
    assert [layer.elements for layer in sizes.layers] == [layer.elements for layer in model_sizes(plain).layers]
    assert [layer.active_elements for layer in sizes.layers] == [
        layer.active_elements for layer in model_sizes(plain).layers
    ]
    stored = in_shards(open_layer_converter(packed, torch.float32))
    assert stored is not None
    for layer, layout in zip(needs.layers, stored.layouts, strict=True):
        runs = len(layout.segments)
        assert abs(layer.stored_bytes - layout.nbytes) <= (1 + runs) * PAGE, "up to the pages at the ends of a run"
    assert (needs.layers[0].expert_bytes > 0) == (family != "llama")
    for place in PLACES[1:]:
        found = plan_pair(packed, None, CPU, _at(place))
        taken = found.bytes.ram_layers if place == "ram" else found.bytes.ssd
        assert taken == sum(layer.stored_bytes for layer in needs.layers)
        assert found.bytes.scratch == needs.layers[0].matrix_bytes, "matrices and experts are decoded one at a time"
        assert found.bytes.scratch < needs.layers[0].run_bytes
    assert benchmark_of(packed, "auto", CPU, tmp_path).key != benchmark_of(plain, "auto", CPU, tmp_path).key


def _at(place: Place) -> Question:
    question = Question(context_tokens=100)
    return replace(question, override=replace(question.override, place=place))


@pytest.mark.parametrize(
    ("family", "kind", "weights"),
    choose(
        [("qwen3_moe", "blocks", "nf4"), ("llama", "row", "int8"), ("gpt_oss", "mxfp4", "bfloat16")],
        list(product(("qwen3_moe",), FP8, ("nf4", "int8", "bfloat16"))),
    ),
)
def test_preparing_in_another_format_is_as_from_the_unpacked_checkpoint(
    family: str, kind: str, weights: str, tmp_path: Path
) -> None:
    files = []
    for number, checkpoint in enumerate(packed_model(tmp_path, family, kind)):
        folder = tmp_path / str(number)
        list(prepare_model(checkpoint, weights, folder, Cancellation()))
        files.append([layer.digest for _, layer in sorted(open_prepared(folder).manifest.layers.items())])
    assert files[0] == files[1]


def test_a_whole_pair_in_fp8_is_loaded_without_preparing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(find_model("embedded", "target"), tmp_path / "plain")
    pack(tmp_path / "plain", tmp_path / "packed", *fp8("row"), is_linear)
    cache = tmp_path / "cache"
    options = LoadOptions(target=str(tmp_path / "packed"), draft="none", place="ssd", cache_dir=str(cache))
    told, engine = _ending(load(0, open_pair(options), Cancellation()))
    engine.close()
    assert told is not None
    assert told.target.weights == "FP8"
    plan_command(*["--target", options.target, "--draft", "none", "--place", "ssd"])
    assert "as they are stored, in FP8" in capsys.readouterr().out
    assert document(capsys, "--target", options.target, "--draft", "none")["formats"] == ["FP8"]
    assert told.target.parameters == open_checkpoint(str(tmp_path / "plain")).parameters
    assert list_prepared(cache) == ()


def _ending(steps: Generator[Any, None, Any]) -> tuple[Loaded | None, Any]:
    told = None
    while True:
        try:
            event = next(steps)
        except StopIteration as end:
            return told, end.value
        told = event if isinstance(event, Loaded) else told


def edited(checkpoint: Checkpoint, change: Callable[[dict[str, Tensor]], object]) -> str:
    """The checkpoint's folder, once its tensors were changed."""
    file = checkpoint.folder / FILE
    tensors = read_tensors(file)
    change(tensors)
    save_file(tensors, file, {"format": "pt"})
    return str(checkpoint.folder)


UP = "model.layers.1.mlp.up_proj.weight"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tensors: tensors.pop(f"{UP}_scale_inv"), "has no scales"),
        (lambda tensors: tensors.update({f"{UP}_scale_inv": torch.ones(5, 4)}), "has scales of the shape"),
        (lambda tensors: tensors.update({f"{UP}_scale_inv": torch.ones(0, 4)}), "has scales of the shape"),
        (lambda tensors: tensors.update({UP: tensors[UP][:64].contiguous()}), "has scales of the shape"),
        (lambda tensors: tensors.update({UP: tensors[UP].view(torch.int8)}), "as whole numbers"),
        (lambda tensors: tensors.pop(UP), "lacks the weights"),
    ],
)
def test_what_does_not_fit_together_is_one_sentence(
    change: Callable[[dict[str, Tensor]], object], words: str, tmp_path: Path
) -> None:
    folder = edited(fp8_model(tmp_path, "llama", "blocks")[0], change)
    with pytest.raises(ModelError, match=words) as refusal:
        build_streamable(open_checkpoint(folder), torch.float32, CPU)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("size", [[0, 16], [8, -16], [1 << 60, 16], "all", [8]])
def test_blocks_of_impossible_sizes_are_one_sentence(size: object, tmp_path: Path) -> None:
    packed, _ = fp8_model(tmp_path, "llama", "blocks")
    edit_json(packed.folder / "config.json", quantization_config={"quant_method": "fp8", "weight_block_size": size})
    with pytest.raises(ModelError, match="weight_block_size"):
        open_checkpoint(str(packed.folder))


def test_numbers_that_are_none_stay_in_their_weight(tmp_path: Path) -> None:
    """A NaN among the scales is the model's own affair: nothing fails, wherever the layer lives."""
    packed, _ = fp8_model(tmp_path, "llama", "row")
    folder = edited(packed, lambda tensors: tensors[f"{UP}_scale"].fill_(float("nan")))
    target = streamed(open_checkpoint(folder), tmp_path / "cache", "ssd")
    assert row_by_row(target).isnan().all()
    target.close()


def test_the_network_is_that_of_an_unpacked_checkpoint(tmp_path: Path) -> None:
    packed, plain = fp8_model(tmp_path, "qwen3_moe", "blocks")
    built = [open_architecture(checkpoint).build_on_meta(torch.bfloat16) for checkpoint in (packed, plain)]
    assert not hasattr(built[0].config, "quantization_config")
    assert [type(module) for module in built[0].modules()] == [type(module) for module in built[1].modules()]


def test_a_converter_says_where_the_pieces_of_a_weight_are(tmp_path: Path) -> None:
    packed, _ = fp8_model(tmp_path, "qwen3_moe", "blocks")
    assemblies = open_layer_converter(packed, torch.float32).assemblies(0)
    assert assemblies is not None
    fused = assemblies["mlp.experts.gate_up_proj"]
    covered = torch.zeros(fused.shape)
    for piece in fused.pieces:
        piece.place(covered).add_(1)
    assert len(fused.pieces) == 16
    assert bool((covered == 1).all())
