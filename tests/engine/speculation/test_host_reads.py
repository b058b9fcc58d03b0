"""A round waits for the device as often for a large tree as for a small one, and finds the same as node by node."""

from functools import partial

import pytest
import torch

from engine.protocol.options import SamplingOptions, SpeculationOptions
from engine.speculation.interfaces import Fixed, Method
from engine.speculation.methods import sampled_trees
from engine.speculation.methods.lookup import Autoregression, Lookup
from engine.speculation.methods.proposals import kept
from engine.speculation.methods.rng import Rng
from engine.speculation.methods.sampled_trees import Drafting
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from engine.speculation.target_log_probs import judge
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.trees.tree_program import PRIOR, best_shape
from tests.campaigns.extent import choose
from tests.engine.speculation.host_reads import Bigrams, HostReads, bigrams, forbid_free_reads
from tests.engine.speculation.pairs import Outcome, Silent
from tests.engine.speculation.sampled import METHODS

VOCABULARY, PROMPT = 200, [3, 1, 4, 1, 5, 9, 2, 6]
GREEDY = SamplingOptions()
FILTERED = SamplingOptions(
    0.8, 0.95, 9, 0.01, 1.3, presence_penalty=0.2, seed=4, frequency_penalty=0.1, bias=((7, -100.0), (8, 0.5)),
    xtc_probability=0.3, xtc_threshold=0.2,
)  # fmt: skip
PLAIN = SamplingOptions(temperature=1.0, seed=7)
NAMES = ("specexec", "lookup", "none", *METHODS)
DEPTH = 8  # levels of the trees
READS = 2  # of a round, besides one for every pass of the draft: the path, and the log-probabilities that are told


def method_of(name: str, draft: Bigrams, sampling: SamplingOptions, rng: Rng) -> Method:
    sampler = Sampler(sampling, PROMPT, uniforms := Uniforms(sampling.seed))
    assert uniforms[500] < 1, "numbers are made beforehand, as that is no read of the device"
    sampler.ahead((), 0, torch.device("cpu")).excludes(500)
    if name == "none":
        return Autoregression(sampler)
    if name in METHODS:
        return METHODS[name](Drafting(draft, sampler, sampling, PROMPT, VOCABULARY, rng))
    method = SpecExec(draft, sampler, SpeculationOptions(), VOCABULARY)
    return method if name == "specexec" else Lookup(method, name)


def write(
    name: str, pair: tuple[Bigrams, Bigrams], sampling: SamplingOptions, budget: int, tokens: int = choose(12, 40)
) -> tuple[Outcome, int, list[float]]:
    """What was answered, the host's reads, and the numbers of the next decisions."""
    (target, draft), rng, reads = pair, Rng(sampling.seed, torch.device("cpu")), HostReads()
    rng.upcoming(20_000)
    method = method_of(name, draft, sampling, rng)
    target.prefill(PROMPT[:-1])
    method.prefill(PROMPT[:-1])
    answer, results = Answer(Silent(), frozenset(), tokens), []
    steps = rounds(Speculation(target, Fixed(method, budget, DEPTH), answer, Stopwatch()), PROMPT)
    with reads.counted():
        for result in steps:
            results.append(result)
            assert target.in_use == draft.in_use == 0, "logits must be gone with their round"
    return Outcome(answer.tokens, results), reads.count, rng.upcoming(3)


def seen(written: Outcome) -> list[tuple[Tree, Path, tuple[float, ...]]]:
    return [(result.tree, result.path, result.log_probs) for result in written.rounds]


@pytest.mark.parametrize("sampling", choose([GREEDY, FILTERED], [GREEDY, PLAIN, FILTERED]))
@pytest.mark.parametrize("name", NAMES)
def test_the_reads_of_a_round_do_not_grow_with_the_tree(
    name: str, sampling: SamplingOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_free_reads(monkeypatch)
    for budget, noise in ((4, 3.0), (200, 0.1)):  # a small tree of which little is accepted, a large one of which much
        for levels in range(1, DEPTH + 2):
            best_shape(PRIOR, budget + 1, levels)  # planned on the host, and once
        pair = bigrams(VOCABULARY, noise)
        written, reads, _ = write(name, pair, sampling, budget)
        assert reads == READS * len(written.rounds) + pair[1].passes
        if name in ("specexec", "chain") and noise < 1:
            assert len(written.tokens) > 2 * len(written.rounds), "too little was accepted to tell"


@pytest.mark.parametrize("sampling", choose([GREEDY, FILTERED], [GREEDY, PLAIN, FILTERED]))
@pytest.mark.parametrize("name", NAMES)
def test_what_is_found_on_a_device_is_what_is_found_node_by_node(
    name: str, sampling: SamplingOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = partial(write, name, sampling=sampling, budget=choose(40, 300))
    expected, _, numbers = run(bigrams(VOCABULARY, 0.6))
    forbid_free_reads(monkeypatch)
    found, _, left = run(bigrams(VOCABULARY, 0.6))
    assert seen(found) == seen(expected)
    assert left == numbers, "as many random numbers were used"


@pytest.mark.parametrize("name", choose(("specexec", "sequoia"), NAMES))
def test_penalties_that_the_host_looks_up_give_the_same_on_a_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sampling = SamplingOptions(1.0, seed=3, dry_multiplier=3.0, dry_allowed_length=1)
    run = partial(write, name, sampling=sampling, budget=choose(40, 300))
    expected, _, numbers = run(bigrams(VOCABULARY, 0.6))
    forbid_free_reads(monkeypatch)
    found, _, left = run(bigrams(VOCABULARY, 0.6))
    assert (seen(found), left) == (seen(expected), numbers)


@pytest.mark.parametrize("name", METHODS)
def test_a_level_that_takes_several_passes_gives_the_same_tree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled_trees, "BATCH", 64)
    expected, _, numbers = write(name, bigrams(VOCABULARY, 0.6), PLAIN, 60, tokens=12)
    monkeypatch.setattr(sampled_trees, "BATCH", 3)
    forbid_free_reads(monkeypatch)
    found, _, left = write(name, bigrams(VOCABULARY, 0.6), PLAIN, 60, tokens=12)
    if name in ("chain", "sequoia", "specinfer 2,2,1"):  # the others draw as often for each as for the likeliest
        assert (found.tokens, left) == (expected.tokens, numbers)


@pytest.mark.parametrize("name", NAMES)
def test_logits_in_16_bits_are_reckoned_with_in_float32(name: str) -> None:
    rounded = [Bigrams(its._table.bfloat16()) for its in bigrams(VOCABULARY, 0.6)]
    widened = [Bigrams(its._table.bfloat16().float()) for its in bigrams(VOCABULARY, 0.6)]
    narrow, wide = (write(name, (its[0], its[1]), FILTERED, 24)[0] for its in (rounded, widened))
    assert seen(narrow) == seen(wide)


def test_few_tokens_are_kept_in_little_memory_and_exactly() -> None:
    rows = torch.rand(5, 400, generator=torch.Generator().manual_seed(2))
    rows = rows.masked_fill(rows < rows.topk(9).values[:, -1:], 0.0)
    rows[3, rows[3].argmax()] = 0.0
    few = kept(rows, (rows > 0).sum(1).tolist())
    assert few.values.nelement() == 5 * 9
    for place, row in enumerate(rows):
        assert few.row(place).equal(row)
        assert few.row(torch.tensor([place])).equal(row)
    assert kept(rows, [400] * 5).values is rows


def test_what_the_target_thinks_of_the_nodes_is_read_at_once() -> None:
    tree = Tree(tuple(range(100)), (-1, *range(99)), (0.0,) * 100)
    logits = torch.randn(100, 300, generator=torch.Generator().manual_seed(2))
    reads = HostReads()
    with reads.counted():
        judge(tree, logits, Path((0, 1), 5))
    assert reads.count == 1


def test_reads_are_counted() -> None:
    reads, values = HostReads(), torch.arange(4)
    with reads.counted():
        for read in (values.tolist, values.cpu, values[1].item, values.nonzero, values.sum, lambda: values[values[2]]):
            read()
        assert int(values[0]) == float(values[0]) == 0
        assert not (values > 9).any()
    assert reads.count == 8
