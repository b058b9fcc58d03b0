"""A self-draft in the target's own cache: nothing is held twice, it reads what the target read, and leaves no trace."""

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context, SharedContext
from engine.model.network import Network
from engine.model.passes.light.adoption import takes_one_call
from engine.model.streamable_network import build_self_draft_network
from tests.campaigns.extent import choose
from tests.engine.resident import load_resident
from tests.engine.speculation.pairs import random_prompt
from tests.engine.tiny_models import save_tiny_model

FAMILIES = choose(("gemma3", "gpt_oss", "qwen3_5"), ("llama", "mistral_sliding", "gemma3", "gpt_oss", "qwen3_5"))
OWN = [1, 2]


def host_network(family: str, folder: Path, **changes: Any) -> tuple[Checkpoint, Network]:
    save_tiny_model(family, folder, **changes)
    checkpoint = open_checkpoint(str(folder))
    return checkpoint, load_resident(checkpoint, torch.float32, torch.device("cpu"))


def twin_of(checkpoint: Checkpoint, network: Network) -> Network:
    """A self-draft whose own layers hold copies of the weights."""
    copied = build_self_draft_network(network, checkpoint, OWN)
    for index in OWN:
        copies = {name: tensor.clone() for name, tensor in network.layers[index].state_dict().items()}
        copied.layers[index].load_state_dict(copies, assign=True)
    return copied


@pytest.mark.parametrize("family", FAMILIES)
def test_a_twin_has_nothing_of_its_own_but_its_layers(family: str, tmp_path: Path) -> None:
    checkpoint, network = host_network(family, tmp_path)
    copied = build_self_draft_network(network, checkpoint, OWN)
    assert [copied.layers[index] is network.layers[index] for index in range(4)] == [True, False, False, True]
    ours = dict(network.model.named_parameters(remove_duplicate=False))
    for name, parameter in copied.model.named_parameters(remove_duplicate=False):
        if any(f"layers.{index}." in name for index in OWN):
            assert parameter.is_meta
        else:
            assert parameter.data_ptr() == ours[name].data_ptr()
    assert not any(buffer.is_meta for buffer in copied.model.buffers())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_guest_reads_the_host_s_cache_and_leaves_no_trace(family: str, tmp_path: Path) -> None:
    checkpoint, network = host_network(family, tmp_path)
    host, alone = Context(network, 64), Context(network, 64)
    guest = SharedContext(twin_of(checkpoint, network), host)
    prompt = random_prompt(19, seed=1)
    host.prefill(prompt)
    guest.prefill(prompt)
    alone.prefill(prompt)
    assert guest._cache.layers[1].keys.data_ptr() == host._cache.layers[1].keys.data_ptr()
    for tokens in ([50, 51, 52, 53], [60, 61, 62, 63]):
        tree = [-1, 0, 0, 2]
        guessed = torch.cat([guest.score(tokens[:2], tree[:2]), guest.score(tokens[2:], tree[2:])])
        expected = alone.score(tokens, tree)
        torch.testing.assert_close(guessed, expected, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(host.score(tokens, tree), expected, atol=1e-4, rtol=1e-4)
        guest.keep([0, 1])
        for context in (host, alone):
            context.keep([0, 2, 3])
        assert guest.length == host.length == alone.length


def test_layers_of_both_are_preceded_by_one_hook_each(tmp_path: Path) -> None:
    checkpoint, network = host_network("llama", tmp_path)
    calls: list[str] = []
    host = Context(network, 64, lambda: calls.append("host"))
    guest = SharedContext(twin_of(checkpoint, network), host, lambda: calls.append("guest"))
    guest.score([5], [-1])
    assert calls == ["host", "guest", "guest", "host"]


@pytest.mark.parametrize("family", ["llama", "qwen3_moe"])
def test_its_own_layers_compute_few_rows_as_those_of_the_host_do(family: str, tmp_path: Path) -> None:
    checkpoint, network = host_network(family, tmp_path, head_dim=32)
    copied = build_self_draft_network(network, checkpoint, OWN)
    assert all(takes_one_call(layer) for layer in copied.layers)
    assert copied.layers[OWN[0]].__dict__["forward"].__self__ is copied.layers[OWN[0]]
