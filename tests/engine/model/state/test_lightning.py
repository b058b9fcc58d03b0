"""Lightning attention: a text in blocks and in several passes, against transformers' module; its decays."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.families.state_families import DECAYS
from engine.model.shape import model_sizes
from engine.model.state.lightning import BLOCK, LightningMixer
from engine.model.state.state_cache import StateCache
from engine.model.state.state_layer import StateLayer
from tests.engine.family_models import save_tiny, tiny_config
from tests.engine.family_proof import loaded
from tests.engine.model.state.test_hybrid_context import PROMPT, random_tree
from tests.engine.tensor_files import read_tensors


class OneLayer:
    """What the module takes for its cache."""

    def __init__(self, layer: StateLayer) -> None:
        self.layers = [layer]


@torch.inference_mode()
def test_a_text_in_blocks_and_passes_equals_the_librarys_module() -> None:
    torch.manual_seed(0)
    config = tiny_config("minimax")
    config.layer_types = ["linear_attention"] * 4
    module = MiniMaxLightningAttention(config, 0).eval()
    rows = torch.randn(1, BLOCK + 60, config.hidden_size)
    expected, state = module(rows, None, None)
    layer, mixer = StateLayer(), LightningMixer(module)
    states = StateCache([layer], 512)
    found = []
    for part in (rows[:, : BLOCK + 9], rows[:, BLOCK + 9 :]):
        states.begin()
        found.append(mixer(part, past_key_values=OneLayer(layer))[0])
        states.commit(part.shape[1])
    torch.testing.assert_close(torch.cat(found, 1), expected, atol=1e-5, rtol=1e-4)
    assert layer.root.state is not None
    torch.testing.assert_close(layer.root.state.mT, state, atol=1e-5, rtol=1e-4)


def test_a_checkpoint_need_not_hold_what_follows_from_its_config(tmp_path: Path) -> None:
    save_tiny("minimax", tmp_path)
    whole = loaded(open_checkpoint(str(tmp_path)))
    stored = read_tensors(tmp_path / "model.safetensors")
    left = {name: tensor for name, tensor in stored.items() if not name.endswith(DECAYS)}
    assert len(left) == len(stored) - 2 * len(DECAYS)
    save_file(left, tmp_path / "model.safetensors", {"format": "pt"})
    checkpoint = open_checkpoint(str(tmp_path))
    tokens, parents = random_tree(12, seed=1)
    both = [Context(network, 48) for network in (whole, loaded(checkpoint))]
    for context in both:
        context.prefill(PROMPT)
    one, other = (context.score(tokens, parents) for context in both)
    assert torch.equal(one, other)
    sizes = model_sizes(checkpoint)
    assert [bool(layer.state) for layer in sizes.layers] == [False, True] * 2
    assert all(weight.name.endswith(DECAYS) is False for layer in sizes.layers for weight in layer.weights)
