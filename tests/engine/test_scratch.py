"""The scratch layer that is planned for holds what a streamed layer of the network decodes beside its pass."""

from pathlib import Path

import pytest
import torch

from engine.loading.planning import needs_of
from engine.model.checkpoint import open_checkpoint
from engine.model.shape import model_sizes
from engine.model.streamable_network import build_streamable
from engine.weights.streaming.binding import Scratch
from engine.weights.streaming.stored_weight import multiplied_names
from tests.engine.family_models import save_tiny

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
