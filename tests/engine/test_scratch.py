"""The scratch layer that is planned for holds what a streamed layer of the network decodes beside its pass."""

from pathlib import Path

import pytest
import torch

from engine.loading.planning import needs_of
from engine.model.checkpoint import open_checkpoint
from engine.model.shape import model_sizes
from engine.model.streamable_network import build_streamable
from engine.protocol.options import LoadOptions
from engine.weights.streaming.binding import Scratch
from engine.weights.streaming.stored_weight import multiplied_names
from tests.campaigns.extent import choose
from tests.engine.family_models import save_tiny
from tests.engine.test_loading import loaded

CPU = torch.device("cpu")


@pytest.mark.parametrize("family", ["llama", "gpt2", "falcon", "falcon_mamba", "gpt_neox"])
def test_what_no_linear_module_multiplies_with_is_planned_for_as_a_whole(family: str, tmp_path: Path) -> None:
    save_tiny(family, tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    needs = needs_of(checkpoint, model_sizes(checkpoint), "int8", CPU)
    layer = build_streamable(checkpoint, torch.bfloat16, CPU).network.layers[0]
    scratch, multiplied = Scratch(CPU), multiplied_names(layer)
    at_once = scratch.weights_of(layer, elsewhere=multiplied)
    scratch.places_of(layer, multiplied)
    taken = sum(each.nbytes for each in at_once.values()) + len(scratch._one)
    planned = needs.scratch_bytes(by_matrix=True)
    assert taken <= planned <= needs.scratch_bytes()
    assert (planned == needs.layers[0].run_bytes) == (family in ("gpt2", "falcon")), "they have modules of their own"


@pytest.mark.parametrize(
    "family",
    ["qwen3_moe", "gpt_oss", *choose([], ["mixtral", "granitemoe", "phimoe"])],
)
def test_experts_that_come_one_by_one_are_planned_for_one_at_a_time(family: str, tmp_path: Path) -> None:
    """A prompt of many rows decodes the experts of a whole layer, each in the place of the one before."""
    save_tiny(family, tmp_path / "model")
    checkpoint = open_checkpoint(str(tmp_path / "model"))
    needs = needs_of(checkpoint, model_sizes(checkpoint), "int8", CPU)
    target = loaded(checkpoint, LoadOptions(weights="int8", place="ssd", cache_dir=str(tmp_path / "cache")))
    with torch.inference_mode():
        target.network.model(torch.arange(200)[None] % 90)
    assert target.stream
    assert target.stream._experts
    scratch, layers = target.stream._scratch, target.stream._experts._layers.values()
    experts = {id(layer.followed._scratch): layer.followed._scratch for layer in layers if layer.followed}
    of_experts = [place for each in experts.values() for place in each._places.values()]
    of_layers = [place for layer in scratch._layers.values() for place in layer.values()]
    taken = sum(each.nbytes for each in (*of_layers, *of_experts)) + len(scratch._one)
    target.close()
    assert of_experts
    assert taken <= needs.scratch_bytes(by_matrix=True) < needs.scratch_bytes()
