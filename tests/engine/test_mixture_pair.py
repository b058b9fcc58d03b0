"""The trained mixture: its routers prefer some experts, trees change nothing in its text, and it can be grown."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.protocol.options import LoadOptions
from engine.weights.planning.needs import expected_distinct
from engine.weights.streaming.experts.routing import RoutingRecord
from tests.bench.grown_mixture import MixtureShape, grow_mixture, shape_of
from tests.campaigns.extent import for_the_proofs
from tests.engine.resident import load_resident
from tests.engine.test_hybrid_pair import PLAIN, TREES, answers, tokens_per_pass
from tests.hybrid_pair.corpus import EMBEDDED
from tests.mixture_pair.conversion import CHOSEN, EXPERTS, clusters
from tests.mixture_pair.folders import assemble
from tests.mixture_pair.routing import distinct_of_groups, share_of_most_used

CPU = torch.device("cpu")
TEXT = (
    "Once upon a time there was a small dragon who lived near a big river. Every day he looked at the boats and wished "
    "that he could swim. One day a girl came to the river and asked him why he was sad. He told her about the boats, "
    "and she laughed and said that she would help him."
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assemble(tmp_path_factory.mktemp("mixture") / "target")


def test_trees_of_the_embedded_draft_write_the_same_text_in_far_fewer_passes(folder: Path, tmp_path: Path) -> None:
    draft = str(EMBEDDED["draft"])
    options = LoadOptions(str(folder), draft, weights="float32", cache_dir=str(tmp_path))
    plain, drafted = answers(options, PLAIN, TREES)
    assert drafted.token_ids == plain.token_ids
    assert tokens_per_pass(drafted) > 2.0


def test_its_routers_prefer_some_experts(folder: Path) -> None:
    network = load_resident(open_checkpoint(str(folder)), torch.float32, CPU)
    record = RoutingRecord.of(network.layers)
    assert record
    assert record.count == EXPERTS
    context = Context(network, 256)
    context.prefill(Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXT).ids)
    choices = [record.chosen(layer) for layer in record.layers]
    assert all(choice.shape[1] == CHOSEN for choice in choices)
    shares = [share_of_most_used(choice, EXPERTS) for choice in choices]
    assert sum(shares) / len(shares) > 0.35  # .25 if all were used alike
    for rows in (4, 16):
        distinct = sum(distinct_of_groups(choice, rows) for choice in choices) / len(choices)
        assert distinct < expected_distinct(EXPERTS, CHOSEN, rows) - 1


def test_units_that_are_strong_together_make_a_group() -> None:
    found = []
    for seed in range(4):  # a bad start may end in a worse grouping
        torch.manual_seed(seed)
        alike = torch.rand(64, 3).repeat(1, 4) + 0.01 * torch.rand(64, 12)
        found.append({tuple(sorted(group)) for group in clusters(alike, 3).tolist()})
    assert all(sorted(sum(groups, ())) == list(range(12)) for groups in found)
    assert {(0, 3, 6, 9), (1, 4, 7, 10), (2, 5, 8, 11)} in found


@for_the_proofs
def test_a_grown_mixture_has_the_same_logits(folder: Path, tmp_path: Path) -> None:
    grown = grow_mixture(tmp_path / "grown", MixtureShape(512, 512))
    ids = torch.arange(100, 164)[None]
    with torch.inference_mode():
        found, own = (
            load_resident(open_checkpoint(str(each)), torch.float32, CPU).model(ids).logits for each in (grown, folder)
        )
    assert (found - own).abs().max() < 1e-3


def test_it_is_grown_to_the_size_that_was_asked_for() -> None:
    shape = shape_of(1.8e9)
    assert 0.9 < 7 * 17 * 3 * shape.hidden * shape.inner / 1.8e9 < 1.1
