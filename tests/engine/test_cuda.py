"""What the tests on the CPU show, once more where it will be used."""

from collections.abc import Iterator

import pytest
import torch

from engine.model.context import Context
from engine.model.network import Network, wrap
from engine.protocol.options import SamplingOptions
from tests.engine.exact_products import exact_products
from tests.engine.model.test_context import PREFIX, path_to, random_tree
from tests.engine.speculation.pairs import noisy_copy, random_prompt, write
from tests.engine.tiny_models import FAMILIES, tiny_network

pytestmark = pytest.mark.gpu


def on_cuda(network: Network) -> Network:
    return wrap(network.model.to("cuda"), network.attention, "tiny")


@pytest.fixture(autouse=True)
def _exact() -> Iterator[None]:
    with exact_products():
        yield


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_text_is_what_transformers_generates(family: str) -> None:
    target, draft = on_cuda(tiny_network(family)), on_cuda(noisy_copy(family))
    prompt = random_prompt(19, seed=0)
    ids = torch.tensor([prompt], device="cuda")
    options = {"max_new_tokens": 40, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    expected = target.model.generate(ids, **options)[0, len(prompt) :].tolist()
    for budget in (8, 256):
        assert write(target, draft, prompt, 40, budget).tokens == expected


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingOptions(temperature=0.8, top_p=0.9, seed=3),
        SamplingOptions(
            temperature=1.0, dry_multiplier=2.0, dry_allowed_length=0, xtc_probability=0.5, xtc_threshold=0.02, seed=3
        ),
    ],
)
def test_the_same_seed_gives_the_same_text_with_and_without_a_tree(sampling: SamplingOptions) -> None:
    target, draft = on_cuda(tiny_network("llama")), on_cuda(noisy_copy("llama"))
    prompt = random_prompt(19, seed=7)
    plain = write(target, None, prompt, 40, 0, sampling)
    assert write(target, draft, prompt, 40, 64, sampling).tokens == plain.tokens


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt_oss"])
def test_a_kept_path_is_as_if_only_it_had_been_read(family: str) -> None:
    network = on_cuda(tiny_network(family))
    kept, fresh = Context(network, 96), Context(network, 96)
    kept.prefill(PREFIX)
    for seed in (1, 2):
        tokens, parents = random_tree(20, seed)
        kept.score(tokens, parents)
        kept.keep(path_to(15, parents))
    fresh.prefill(kept.tokens)
    torch.testing.assert_close(kept.score([7], [-1]), fresh.score([7], [-1]), atol=1e-3, rtol=1e-3)
