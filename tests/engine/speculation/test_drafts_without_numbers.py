"""A draft that computes no numbers, as where its logits overflow, proposes nothing there: the answer goes on."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from engine.protocol.options import SamplingOptions, SpeculationOptions
from engine.speculation.interfaces import Fixed
from engine.speculation.merged_draft import MergedDraft
from engine.speculation.methods.acceptance_rates import Calibration
from engine.speculation.methods.specexec import BorrowingSpecExec
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from tests.engine.speculation.enumeration import TableModel
from tests.engine.speculation.host_reads import forbid_free_reads
from tests.engine.speculation.pairs import Outcome, Silent
from tests.engine.speculation.sampled import METHODS, write_sampled

VOCABULARY = 6
PROMPT = [1, 2]
NEW_TOKENS = 24


class Overflowing(TableModel):
    """Computes nothing that is a number behind every text whose last token is one of `broken`."""

    def __init__(self, broken: Sequence[int], value: float = torch.nan) -> None:
        super().__init__(VOCABULARY, seed=1)
        self._broken = broken
        self._value = value

    def logits(self, text: Sequence[int]) -> torch.Tensor:
        found = super().logits(text)
        if text[-1] in self._broken:
            found[3] = self._value
        return found

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Forgets `rest`, as what borrows from its target does."""
        del rest
        super().keep(nodes)


def write_specexec(draft: TableModel, sampling: SamplingOptions, calibration: Calibration | None = None) -> Outcome:
    target, answer = TableModel(VOCABULARY, seed=1), Answer(Silent(), frozenset(), NEW_TOKENS)
    sampler = Sampler(sampling, PROMPT, Uniforms(sampling.seed))
    method = BorrowingSpecExec(draft, sampler, SpeculationOptions(), VOCABULARY, calibration)
    for reader in (target, method):
        reader.prefill(PROMPT[:-1])
    parts = Speculation(target, Fixed(method, 6, 4), answer, Stopwatch())
    return Outcome(answer.tokens, list(rounds(parts, PROMPT)))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_without_any_number_writes_an_answer_without_trees(temperature: float, value: float) -> None:
    sampling, every = SamplingOptions(temperature, seed=3), range(VOCABULARY)
    plain = write_specexec(Overflowing(every, value), sampling)
    assert len(plain.tokens) == NEW_TOKENS
    assert not any(result.tree.drafted for result in plain.rounds)
    assert plain.tokens == write_specexec(Overflowing(()), sampling).tokens


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("sampling", [SamplingOptions(), SamplingOptions(1.0), SamplingOptions(1.0, top_k=2)])
@pytest.mark.parametrize("name", METHODS)
def test_sampled_trees_end_where_the_numbers_do(
    name: str, sampling: SamplingOptions, on_device: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on_device:
        forbid_free_reads(monkeypatch)
    for broken in (range(VOCABULARY), (1, 2, 4)):
        target, draft = TableModel(VOCABULARY, seed=1), Overflowing(broken)
        written = write_sampled(METHODS[name], target, draft, PROMPT, NEW_TOKENS, 6, VOCABULARY, sampling)
        assert len(written.tokens) == NEW_TOKENS
        parents = {result.tree.tokens[node] for result in written.rounds for node in result.tree.parents[1:]}
        assert parents.isdisjoint(broken)
        assert bool(parents) == (len(broken) < VOCABULARY), "nothing was drafted, so nothing was tested"


def test_nothing_is_learnt_where_nothing_was_proposed() -> None:
    calibration = Calibration()
    write_specexec(Overflowing(range(VOCABULARY)), SamplingOptions(), calibration)
    assert calibration.observations == 0
    write_specexec(Overflowing((1, 2)), SamplingOptions(), calibration)
    assert calibration.observations > 0
    assert np.isfinite(calibration.state["gain"])


def test_one_of_two_drafts_proposes_alone_where_the_other_computes_no_numbers() -> None:
    sound = TableModel(VOCABULARY, seed=1)
    merged = MergedDraft(Overflowing((4,)), sound, VOCABULARY)
    merged.prefill(PROMPT)
    found = merged.score([4, 5], [-1, 0]).softmax(-1)
    sound.prefill(PROMPT)
    torch.testing.assert_close(found[0], sound.score([4, 5], [-1, 0])[0].softmax(-1))
