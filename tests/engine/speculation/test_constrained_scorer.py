"""Constrained answers: whatever method drafts, their distribution is the target's own over what may follow."""

import re
from collections.abc import Sequence
from functools import cache
from itertools import product

import pytest
import torch
from torch import Tensor

from engine.errors import InputError, OutOfMemory
from engine.model.context import Context
from engine.protocol.options import CallMark, Constraint, SamplingOptions, SpeculationOptions
from engine.speculation.constrained_scorer import ConstrainedScorer, _mask_rows, forbidden_of
from engine.speculation.interfaces import Fixed, Method, PathState, Scorer
from engine.speculation.merged_draft import MergedDraft
from engine.speculation.methods.lookup import Autoregression, Lookup
from engine.speculation.methods.specexec import BorrowingSpecExec, SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms, distribution, inverse_cdf
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from engine.text.grammars.calls_in_text import CallMarks
from engine.text.grammars.grammar import Grammar
from engine.text.grammars.reasoning_first import Masks
from engine.text.grammars.vocabulary import GrammarVocabulary
from tests.campaigns.extent import choose
from tests.engine.speculation.enumeration import ForkedRng, TableModel, probabilities
from tests.engine.speculation.pairs import Outcome, Silent, noisy_copy, penalised
from tests.engine.speculation.sampled import METHODS, write_sampled
from tests.engine.speculation.test_sampled_distribution import PROMPT, assert_same
from tests.engine.tiny_models import tiny_network

TOKENS = ("a", "b", "ab", "c", "cb")
END, PADDING = len(TOKENS), 1  # the networks have a token more than the tokenizer
SIZE = END + 1 + PADDING
PATTERN = "(a|b){1,2}(b|c)"
TEXTS = [text for size in range(4) for text in map("".join, product("abc", repeat=size)) if re.fullmatch(PATTERN, text)]
LONGEST = 4  # tokens, with the end


class Letters:
    def encode_onward(self, text: str) -> list[int]:
        return [TOKENS.index(letter) for letter in text]


LETTERS = Letters()


@cache
def first(pattern: str = PATTERN) -> PathState:
    spelled = {token: text.encode() for token, text in enumerate(TOKENS)}
    return Grammar(Constraint("regex", pattern), GrammarVocabulary(spelled, {END: "<end>"}, [END], LETTERS)).root


def followers(answer: Sequence[int]) -> list[int]:
    """What may follow, told from all texts there are."""
    said = "".join(TOKENS[token] for token in answer)
    ends = [END] if said in TEXTS else []
    return [token for token, more in enumerate(TOKENS) if any(text.startswith(said + more) for text in TEXTS)] + ends


def masked(row: Tensor, answer: Sequence[int]) -> Tensor:
    allowed = torch.zeros(len(row), dtype=torch.bool)
    allowed[followers(answer)] = True
    return row.masked_fill(~allowed, -torch.inf)


def truth(target: TableModel, sampling: SamplingOptions) -> dict[tuple[int, ...], float]:
    """Every answer to its end, and how likely the target is to say it among those that may be."""
    found: dict[tuple[int, ...], float] = {}
    open_answers: dict[tuple[int, ...], float] = {(): 1.0}
    while open_answers:
        answer, so_far = open_answers.popitem()
        logits = penalised(masked(target.logits([*PROMPT, *answer]), answer), sampling, PROMPT, answer)
        row = distribution(logits, sampling).double()
        for token in row.nonzero().flatten().tolist():
            longer, probability = (*answer, token), so_far * float(row[token] / row.sum())
            (found if token == END else open_answers)[longer] = probability
    return found


def held(target: Scorer, draft: Scorer, *, forgets: bool = False) -> tuple[ConstrainedScorer, ConstrainedScorer]:
    host = ConstrainedScorer(target, first(), len(PROMPT))
    return host, ConstrainedScorer(draft, first(), len(PROMPT), host, forgets=forgets)


SETTINGS = [
    SamplingOptions(temperature=1.0),
    SamplingOptions(temperature=0.7, top_p=0.9),
    SamplingOptions(temperature=1.3, repetition_penalty=1.4, presence_penalty=0.5),
]


@pytest.mark.parametrize("sampling", choose(SETTINGS[1:2], SETTINGS))
@pytest.mark.parametrize(
    ("name", "budget"), [("sequoia", 3), ("specinfer", 2), *choose([], [("specinfer 2,2,1", 4)]), ("chain", 2)]
)
def test_every_answer_has_exactly_the_target_s_probability(name: str, budget: int, sampling: SamplingOptions) -> None:
    """Draws of the draft and decisions of the verification are followed down every branch."""
    target, draft = TableModel(SIZE, seed=1), TableModel(SIZE, seed=2)

    def run(rng: ForkedRng) -> tuple[int, ...]:
        written = write_sampled(
            METHODS[name], *held(target, draft), PROMPT, LONGEST, budget, SIZE, sampling, rng, frozenset({END})
        )
        return tuple(written.tokens)

    assert_same(probabilities(run), truth(target, sampling), within=1e-9)


def write_by(
    make: str, target: Scorer, draft: Scorer, sampling: SamplingOptions, *, forgets: bool = False, budget: int = 12
) -> Outcome:
    """An answer of a method whose text is a function of its random numbers, in real rounds."""
    sampler, options = Sampler(sampling, PROMPT, Uniforms(sampling.seed)), SpeculationOptions(width=4, batch=3)
    host, guest = held(target, draft, forgets=forgets)
    specexec = (BorrowingSpecExec if forgets else SpecExec)(guest, sampler, options, SIZE)
    plain = Autoregression(sampler)
    methods: dict[str, Method] = {
        "specexec": specexec,
        "lookup": Lookup(plain, "lookup"),
        "both": Lookup(specexec, "specexec"),
        "none": plain,
    }
    method = methods[make]
    for each in (host, method):
        each.prefill(PROMPT[:-1])
    answer = Answer(Silent(), frozenset({END}), LONGEST)
    parts = Speculation(Idle(host, method), Fixed(method, budget), answer, Stopwatch())
    return Outcome(answer.tokens, list(rounds(parts, PROMPT)))


class Idle:
    """A target whose layers are awaited in every pass, so that its method goes on drafting."""

    def __init__(self, scorer: Scorer, method: Method) -> None:
        self._scorer = scorer
        self._method = method
        self.prefill, self.keep = scorer.prefill, scorer.keep

    @property
    def length(self) -> int:
        return self._scorer.length

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        for _ in range(2):
            self._method.keep_drafting()
        return self._scorer.score(tokens, parents, last)


def plainly(logits_of: TableModel | Context, sampling: SamplingOptions, longest: int = 1 << 20) -> list[int]:
    """The same answer, a token at a time, without any of the code above."""
    uniforms, answer = Uniforms(sampling.seed), list[int]()
    while len(answer) < longest and (not answer or answer[-1] != END):
        text = [*PROMPT, *answer]
        if isinstance(logits_of, TableModel):
            row = logits_of.logits(text)
        else:
            row = logits_of.network.model(torch.tensor([text])).logits[0, -1].float()
        row = penalised(masked(row, answer), sampling, PROMPT, answer)
        greedy = sampling.temperature == 0
        answer.append(int(row.argmax()) if greedy else inverse_cdf(distribution(row, sampling), uniforms[len(answer)]))
    return answer


def assert_all_may_follow(outcome: Outcome) -> None:
    """A draft that is masked rightly proposes nothing that the target could not say."""
    said: list[int] = []
    for each in outcome.rounds:
        paths: list[list[int]] = [said]
        for token, parent in list(zip(each.tree.tokens, each.tree.parents, strict=True))[1:]:
            paths.append([*paths[parent], token])
            assert END in paths[parent] or token in followers(paths[parent])
        said = [*said, *each.tokens]


class Branching(TableModel):
    """Keeps of a tree what it is told to."""

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        left = [self._paths[node] for node in rest]
        super().keep(nodes)
        self._paths = left


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("make", ["specexec", "lookup", "both", "none"])
def test_the_same_text_as_from_a_plain_loop(make: str, temperature: float) -> None:
    """Trees are carried over between rounds, and drafted on while the target's pass runs."""
    accepted = 0
    for seed in range(choose(12, 60)):
        target, draft = Branching(SIZE, seed), Branching(SIZE, seed + choose(0, seed % 2))
        sampling = SamplingOptions(temperature=temperature, seed=seed)
        outcome = write_by(make, target, draft, sampling)
        assert outcome.tokens == plainly(target, sampling)
        if make == "specexec":
            assert_all_may_follow(outcome)
        accepted += len(outcome.tokens) - len(outcome.rounds)
        for each in outcome.rounds:
            assert all(log_prob > -torch.inf for log_prob in each.log_probs)
    assert accepted or make in ("lookup", "none")


def before_calls(_pattern: str = "") -> PathState:
    """Free text up to a c, behind which a grammar holds."""
    spelled = {token: text.encode() for token, text in enumerate(TOKENS)}
    vocabulary = GrammarVocabulary(spelled, {END: "<end>"}, [END], LETTERS)
    calls = Grammar(Constraint("regex", "c(b|ba)"), vocabulary).root
    return CallMarks(Masks(vocabulary), [(CallMark("c", "c"), calls.follow(TOKENS.index("c")))], {}).plain


def followers_beside_calls(answer: Sequence[int]) -> list[int]:
    """The same as `followers`; in free text, padding too."""
    said = "".join(TOKENS[token] for token in answer if token < END)

    def may_be(text: str, *, ends: bool = False) -> bool:
        _, mark, call = text.partition("c")
        return not mark or (call in ("b", "ba") if ends else "ba".startswith(call))

    others = [*([END] if may_be(said, ends=True) else []), *([] if "c" in said else [END + PADDING])]
    return [token for token, more in enumerate(TOKENS) if may_be(said + more)] + others


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("make", ["specexec", "both", "none"])
def test_free_text_up_to_a_call_is_the_same_as_from_a_plain_loop(
    make: str, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.first", before_calls)
    monkeypatch.setattr(f"{__name__}.followers", followers_beside_calls)
    called = 0
    for seed in range(choose(20, 100)):
        target, draft = Branching(SIZE, seed), Branching(SIZE, seed + seed % 2)
        sampling = SamplingOptions(temperature=temperature, seed=seed)
        outcome = write_by(make, target, draft, sampling)
        assert outcome.tokens == plainly(target, sampling, LONGEST)
        if make == "specexec":
            assert_all_may_follow(outcome)
        called += any("c" in TOKENS[token] for token in outcome.tokens if token < END)
    assert called > 0


class Forgetful(Branching):
    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        super().keep(nodes[:1])


def finite(logits: Tensor) -> list[list[int]]:
    return [row.isfinite().nonzero().flatten().tolist() for row in logits]


@pytest.mark.parametrize("forgets", [False, True])
def test_what_is_left_of_a_tree_is_masked_by_its_own_paths(forgets: bool) -> None:
    draft = (Forgetful if forgets else Branching)(SIZE, 2)
    host, guest = held(TableModel(SIZE, 1), draft, forgets=forgets)
    for each in (host, guest):
        each.prefill(PROMPT[:-1])
        each.score([PROMPT[-1], 0, 1, 3], [-1, 0, 1, 1])  # a, ab, ac
    guest.keep([0, 1], [2, 3])
    host.keep([0, 1])
    if forgets:
        assert finite(guest.score([0, 1, 3], [-1, 0, 0])) == [followers(path) for path in ([0], [0, 1], [0, 3])]
    parents = [1, 2] if forgets else [0, 1]
    assert finite(guest.score([1, END], parents)) == [followers([0, 1, 1]), [*range(SIZE)]]


def test_the_same_in_real_contexts_and_behind_drafts_that_forget() -> None:
    """A head, or a draft that shares its target's cache, keeps nothing of a tree: so does its mask."""
    target, small = tiny_network("llama", 1, vocab_size=SIZE), noisy_copy("llama", 1, noise=0.5, vocab_size=SIZE)
    for seed in range(6):
        sampling = SamplingOptions(temperature=1.0, seed=seed)
        expected = plainly(Context(target, 64), sampling)
        assert write_by("specexec", Context(target, 64), Context(small, 64), sampling).tokens == expected
        merged = MergedDraft(Branching(SIZE, 5), Forgetful(SIZE, 6), SIZE)
        outcome = write_by("specexec", Context(target, 64), merged, sampling, forgets=True)
        assert outcome.tokens == expected
        assert_all_may_follow(outcome)


def test_a_lookup_s_branch_that_may_not_be_is_never_accepted() -> None:
    host, _ = held(TableModel(SIZE, 1), TableModel(SIZE, 2))
    host.prefill(PROMPT[:-1])
    logits = host.score([PROMPT[-1], 0, 4, 1], [-1, 0, 0, 2])  # "cb" may not begin an answer
    assert [row.isfinite().nonzero().flatten().tolist() for row in logits[:2]] == [followers([]), followers([0])]
    assert logits[2:].isfinite().all(), "a row that is never looked at stays as it was"


class Lacking(TableModel):
    """A draft with another vocabulary: it knows neither "c" nor "cb" nor the end."""

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        logits = super().score(tokens, parents, last)
        logits[:, [3, 4, END]] = -torch.inf
        return logits


@pytest.mark.parametrize(("name", "budget"), [("sequoia", 3), ("specinfer", 2), ("chain", 2)])
def test_a_draft_that_knows_none_of_what_may_follow_changes_nothing(name: str, budget: int) -> None:
    target, draft = TableModel(SIZE, seed=1), Lacking(SIZE, seed=2)

    def run(rng: ForkedRng) -> tuple[int, ...]:
        written = write_sampled(
            METHODS[name], *held(target, draft), PROMPT, LONGEST, budget, SIZE, SETTINGS[1], rng, frozenset({END})
        )
        return tuple(written.tokens)

    assert_same(probabilities(run), truth(target, SETTINGS[1]), within=1e-9)


def test_rows_whose_allowed_tokens_are_beyond_a_draft_s_vocabulary_stay_numbers() -> None:
    rows, forbidden = torch.zeros(2, 3), torch.tensor([[True, True, True], [True, False, True]])
    assert _mask_rows(rows, forbidden).softmax(-1).tolist() == [pytest.approx([1 / 3] * 3), [0, 1, 0]]


@pytest.mark.parametrize("is_target_short", [True, False])
def test_a_round_that_ran_out_of_memory_is_begun_again(is_target_short: bool) -> None:
    class Short(Branching):
        failures = 2

        def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
            if self.failures and len(tokens) > 1:
                self.failures -= 1
                raise OutOfMemory("a pass")
            return super().score(tokens, parents, last)

    sampling = SamplingOptions(temperature=1.0, seed=1)
    short, other = Short(SIZE, 3), Branching(SIZE, 3)
    target, draft = (short, other) if is_target_short else (other, short)
    assert write_by("specexec", target, draft, sampling).tokens == plainly(TableModel(SIZE, 3), sampling)
    assert not short.failures, "it ran out of memory"


def test_masks_of_padded_smaller_and_odd_vocabularies() -> None:
    masks = [bytes([0b0000_0101, 0, 0, 0]), bytes([0, 0b1000_0000, 0, 0, 0, 0, 0, 0])]
    for vocabulary in (3, 16, 32, 40):
        forbidden = forbidden_of(masks, vocabulary, torch.device("cpu"))
        allowed = [(~row).nonzero().flatten().tolist() for row in forbidden]
        assert forbidden.shape == (2, vocabulary)
        assert allowed == [[0, 2], [15] if vocabulary > 15 else []]


def test_logits_keep_their_type_and_rows_before_the_answer() -> None:
    class Half(TableModel):
        def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
            return super().score(tokens, parents, last).bfloat16()

    host, guest = held(Half(SIZE, 1), Half(SIZE, 2))
    host.prefill(PROMPT[:-1])
    guest.prefill([])
    logits = guest.score(PROMPT, [-1, 0, 1])  # a draft that has read nothing yet
    assert logits.dtype == torch.bfloat16
    assert logits[:-1].isfinite().all()
    assert logits[-1].isfinite().nonzero().flatten().tolist() == followers([])


def test_an_answer_that_cannot_go_on_says_so() -> None:
    """No token writes a d: what leads there can be drafted, but is not committed."""
    host = ConstrainedScorer(TableModel(SIZE, 1), first("b|ad"), len(PROMPT))
    host.prefill(PROMPT[:-1])
    host.score([PROMPT[-1], 0], [-1, 0])
    with pytest.raises(InputError, match="cannot go on under its constraint"):
        host.keep([0, 1])
