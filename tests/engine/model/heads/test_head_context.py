"""A head's tree against transformers' own computation of it, and what a target records against reading it afresh."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers.cache_utils import MtpCache
from transformers.modeling_layers import MtpModel

from engine.errors import Cancelled
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.heads.head_context import HeadContext
from engine.model.heads.hidden_states import HiddenStates
from engine.model.heads.multi_token import MultiTokenHead, head_of, load_head
from engine.model.network import Network, find_layers, wrap
from tests.campaigns.extent import choose
from tests.engine.family_models import random_model, tiny_config
from tests.engine.head_models import LIBRARY, NAMES, save_with_head
from tests.engine.model.state.test_hybrid_context import path_to, random_tree
from tests.engine.resident import load_resident

FAMILIES = choose(("qwen3_5_text", "deepseek_v3"), tuple(NAMES))
PROMPT = list(range(20, 43))
CLOSE: dict[str, Any] = {"atol": 2e-4, "rtol": 2e-4}


@dataclass(frozen=True)
class Case:
    folder: Path
    network: Network
    head: MultiTokenHead

    def pair(self, capacity: int = 64) -> tuple[Context, HeadContext]:
        """A target and its head that have read nothing."""
        host = Context(self.network, capacity)
        hidden = HiddenStates(self.network, capacity)
        host.record(hidden)
        return host, HeadContext(self.head, host, hidden, capacity)


@pytest.fixture(scope="module", params=FAMILIES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return made(request.param, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return made("qwen3_5_text", tmp_path_factory.mktemp("model"))


def made(family: str, folder: Path) -> Case:
    checkpoint = open_checkpoint(str(save_with_head(family, folder)))
    network = load_resident(checkpoint, torch.float32, torch.device("cpu"))
    return Case(folder, network, load_head(head_of(checkpoint), checkpoint, network))


def library_head(folder: Path) -> tuple[Any, Any]:
    """The model and its head as transformers has them; it must be told where it does not know that there is one."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    config = model.config
    config.num_mtp_layers = 1
    if getattr(config, "layer_types", None):
        config.mtp_layer_types = ["full_attention"]
    if getattr(config, "mlp_layer_types", None):
        config.mtp_mlp_layer_types = ["sparse"]
    model._keys_to_ignore_on_load_unexpected = [rf"model\.layers\.{config.num_hidden_layers}\.", r"^mtp\."]
    return model, MtpModel.from_pretrained(model)


@torch.inference_mode()
def by_library(folder: Path, text: Sequence[int], guessed: Sequence[int]) -> Tensor:
    """Logits behind the last token of a text and behind each one guessed, one after the other: [1 + guessed, ...]."""
    model, head = library_head(folder)
    cache = MtpCache(config=model.config.get_mtp_config())
    hidden = model.get_decoder()(torch.tensor([list(text)])).last_hidden_state[:, :-1]
    tokens, positions = torch.tensor([list(text[1:])]), torch.arange(1, len(text))[None]
    found = []
    for token in [*guessed, 0]:
        outputs = head.forward_layer(0, hidden, positions, cache, input_ids=tokens)
        found.append(head._project_to_logits(outputs[:, -1])[0])
        hidden, tokens, positions = outputs[:, -1:], torch.tensor([[token]]), positions[:, -1:] + 1
    return torch.stack(found)


def read(case: Case, text: Sequence[int]) -> tuple[Context, HeadContext]:
    host, context = case.pair()
    host.prefill(text)
    context.prefill(text)
    return host, context


@pytest.mark.parametrize("case", [family for family in FAMILIES if family in LIBRARY], indirect=True)
def test_a_path_of_guesses_is_what_transformers_computes(case: Case) -> None:
    _, context = read(case, PROMPT[:-1])
    guessed = [60, 61, 62]
    found = context.score([PROMPT[-1], *guessed], range(-1, 3))
    torch.testing.assert_close(found, by_library(case.folder, PROMPT, guessed), **CLOSE)


def test_one_tree_equals_every_path_alone(case: Case) -> None:
    _, context = read(case, PROMPT)
    tokens, parents = random_tree(choose(24, 64), seed=1)
    halves = [context.score(tokens[:9], parents[:9]), context.score(tokens[9:], parents[9:])]
    found = torch.cat(halves)
    _, alone = read(case, PROMPT)
    for leaf in set(range(len(tokens))) - set(parents):
        path = path_to(leaf, parents)
        expected = alone.score([tokens[node] for node in path], range(-1, len(path) - 1))
        torch.testing.assert_close(found[path], expected, **CLOSE)
        alone.keep([])
    context.keep([])
    last = context.score(tokens, parents, last=2)
    torch.testing.assert_close(last, found[-2:], **CLOSE)


def test_only_what_was_read_with_true_hidden_states_is_kept(one: Case) -> None:
    host, context = read(one, PROMPT)
    context.score([50, 51, 52], [-1, 0, 1])
    host.score([50, 51, 52], [-1, 0, 1])
    context.keep([0, 1], [2])
    host.keep([0, 1])
    assert (context.length, host.length) == (len(PROMPT) + 1, len(PROMPT) + 2)
    found = context.score([51, 60, 61], [-1, 0, 1])
    _, fresh = read(one, [*PROMPT, 50, 51])
    torch.testing.assert_close(found[1:], fresh.score([60, 61], [-1, 0]), **CLOSE)


def test_a_record_is_what_reading_afresh_gives_whatever_came_between(case: Case) -> None:
    chance = random.Random(5)
    host, context = case.pair()
    host.prefill_rows = 8
    host.prefill(PROMPT)
    for step in range(choose(8, 40)):
        tokens, parents = random_tree(7, step)
        host.score(tokens, parents)
        path = path_to(chance.randrange(7), parents)
        rest = [node for node in range(7) if path[-1] in path_to(node, parents)[:-1]]
        match step % 4:
            case 0:
                host.keep(path, rest)
                host.keep([0] if rest else [])
            case 1:
                host.keep(path)
            case 2:
                host.prefill([*host.tokens[: chance.randrange(1, host.length)], *range(70, 74)])
            case _:
                host.rewind(host.length - 3)
                context.prefill(host.tokens[:5])
                context.score(host.tokens[5:] or [9], range(-1, len(host.tokens[5:] or [9]) - 1), last=1)
        host.settle()
        with torch.inference_mode():
            expected = case.network.model.get_decoder()(torch.tensor([host.tokens])).last_hidden_state[0]
        torch.testing.assert_close(context._hidden.rows(range(host.length)), expected, **CLOSE)


def test_a_pass_stopped_in_the_middle_leaves_no_trace(one: Case) -> None:
    stop = [100]

    def between_layers() -> None:
        stop[0] -= 1
        if stop[0] < 0:
            raise Cancelled

    host, _ = read(one, PROMPT)
    hidden = host._cache.hidden
    assert hidden is not None
    context = HeadContext(one.head, host, hidden, 64, between_layers=between_layers)
    context.prefill(PROMPT)
    context.score([50, 51], [-1, 0])
    stop[0] = 1  # of three levels the second fails
    with pytest.raises(Cancelled):
        context.score([52, 53, 54], [1, 2, 3])
    stop[0] = 100
    _, other = read(one, PROMPT)
    found = torch.cat([context.score([60, 61], [1, 2])])
    torch.testing.assert_close(found, other.score([50, 51, 60, 61], [-1, 0, 1, 2])[2:], **CLOSE)


def test_rows_without_logits_are_recorded_too_where_the_last_layers_leave_them_out() -> None:
    """Gemma 4 does so in layers without keys of their own."""
    model = random_model(tiny_config("gemma4_text"))
    with torch.inference_mode():
        states = model(torch.tensor([PROMPT]), output_hidden_states=True, use_cache=False).hidden_states
    host = Context(wrap(model, "eager", "gemma4"), 64)
    hidden = HiddenStates(host.network, 64, layers=(0, 2))
    host.record(hidden)
    host.prefill(PROMPT)
    expected = torch.cat([states[1][0], states[3][0]], -1)
    torch.testing.assert_close(hidden.rows(range(len(PROMPT))), expected, **CLOSE)


def test_a_text_of_one_token_has_a_tree_before_anything_was_read(one: Case) -> None:
    """As a prompt of one token, whose tree begins with it."""
    tokens, parents = [7, 50, 51, 60], [-1, 0, 0, 1]
    _, first = one.pair()
    other_host, other = one.pair()
    other_host.prefill(PROMPT)
    other_host.rewind(0)
    torch.testing.assert_close(first.score(tokens, parents), other.score(tokens, parents), **CLOSE)


def test_outputs_of_chosen_layers_are_recorded_side_by_side(one: Case) -> None:
    host = Context(one.network, 4)
    hidden = HiddenStates(one.network, 4, layers=(0, 2))
    host.record(hidden)
    host.prefill(PROMPT)
    host.score([50, 51], [-1, -1])
    host.keep([1])
    with torch.inference_mode():
        model = one.network.model
        outputs = model(torch.tensor([[*PROMPT, 51]]), output_hidden_states=True, use_cache=False)
    expected = torch.cat([outputs.hidden_states[1][0], outputs.hidden_states[3][0]], -1)
    torch.testing.assert_close(hidden.rows(range(host.length)), expected, **CLOSE)
    assert len(find_layers(model)) == 4
