"""Chooses what drafts for one answer: the method with its settings, and the strategy that sizes its trees."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch

from engine.errors import InputError
from engine.protocol.options import UNMEASURED, GenerateOptions
from engine.protocol.sentences import say
from engine.speculation.experts.sampled_size import Mixture, size_for
from engine.speculation.interfaces import Fixed, Method, NullObserver, Observer, Routing, Sampling, Scorer, Strategy
from engine.speculation.methods.acceptance_rates import AcceptanceCounts, Calibration
from engine.speculation.methods.lookup import Autoregression, Lookup
from engine.speculation.methods.rng import Rng
from engine.speculation.methods.sampled_trees import Drafting
from engine.speculation.methods.sequoia import LearnedShapes, PlannedShapes, PrescribedShape, Sequoia
from engine.speculation.methods.specexec import BorrowingSpecExec, Likeliest, SpecExec
from engine.speculation.methods.specinfer import Chain, SpecInfer
from engine.speculation.trees.tree_program import MOST_LEVELS, PRIOR, AcceptanceVector, TreeShape, program_for
from engine.speculation.tuning.auto import Auto
from engine.speculation.tuning.pass_time import PassTime
from engine.speculation.tuning.throughput_model import ThroughputModel

SAMPLED = ("sequoia", "specinfer", "chain")
SAME_TEXT = ("specexec", "lookup")
"""Methods whose text is the target's own for the same seed, so that one can take over from another unnoticed."""
LARGEST = 1024  # nodes of a tree whose size is chosen automatically, if memory allows


class WarmStart(Protocol):
    """What earlier answers with such settings have taught."""

    @property
    def calibration(self) -> Calibration:
        """How often the target accepts what the draft finds so likely."""

    @property
    def throughput(self) -> ThroughputModel:
        """What trees give and cost, for the automatic choice."""


class Measurement(Protocol):
    """How a pair accepts, and how long its passes take."""

    @property
    def acceptance(self) -> AcceptanceVector:
        """How likely the k-th child is the accepted one."""

    @property
    def draft_seconds(self) -> PassTime:
        """Of the draft's passes."""

    @property
    def target_seconds(self) -> PassTime:
        """Of the target's passes."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement of the pair, if there is one; `is_current`: its times hold where the pair is now."""

    found: Measurement | None = None
    is_current: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class MethodInputs:
    """What a method of one answer is made from.

    `draft`: None without a draft model; `forgets`: it keeps of a tree only what the target read before it was grown.
    `vocabulary`: the target's.
    `counts`: how the draft's children were accepted so far. `learned` and `measured` may read files: they are called
    only for a method that needs them. `routing`: what the target's routers chose in its last pass, None where it is no
    mixture; `mixture`: what such a target is, as far as that is known. `expected`: seconds of its passes by their rows,
    None where they were not planned by what was measured. `is_trial`: the pair answers to learn about itself.
    `likeliest`: see `SpecExec`. `end_tokens` end the answer; none where it is to be written on past them. `predicted`:
    what the answer is expected to be.
    """

    sampling: Sampling
    prompt: Sequence[int]
    vocabulary: int
    counts: AcceptanceCounts
    learned: Callable[[], WarmStart]
    measured: Callable[[], Measured] = Measured
    draft: Scorer | None = None
    forgets: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    observer: Observer = field(default_factory=NullObserver)
    largest_tree: int = LARGEST
    routing: Callable[[], Routing | None] = lambda: None
    mixture: Mixture | None = None
    expected: PassTime | None = None
    is_trial: bool = False
    likeliest: Likeliest = lambda *_: None
    end_tokens: Set[int] = frozenset()
    predicted: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class ChosenMethod:
    """`options` are the answer's, with Sequoia's best size where none was asked for; `note`: why this method."""

    method: Method
    options: GenerateOptions
    note: str = ""


def choose_method(options: GenerateOptions, inputs: MethodInputs, budget: int) -> ChosenMethod:
    """The method that the options ask for, as far as there is a draft model.

    `budget`: the most nodes of sampled trees that size themselves, see `_fitted`.
    Raises `InputError` where a method needs a draft and there is none, and for a measurement that cannot be used.
    """
    speculation, plain = options.speculation, Autoregression(inputs.sampling)
    if speculation.method == "none":
        return ChosenMethod(plain, options, say("Speculation is switched off."))
    if speculation.method == "lookup":
        return ChosenMethod(Lookup(plain, "lookup", inputs.end_tokens, inputs.predicted), options)
    if inputs.draft is None:
        if speculation.method != "auto":
            words = say("The method '{method}' needs a draft model.", method=speculation.method)
            raise InputError(words, say("Choose a draft, or the method 'lookup'."))
        if speculation.lookup:
            note = say("No draft model is loaded: the text alone suggests.")
            return ChosenMethod(Lookup(plain, "lookup", inputs.end_tokens, inputs.predicted), options, note)
        return ChosenMethod(plain, options, say("No draft model is loaded."))
    if speculation.method in SAMPLED:
        return _fitted(_sampled(options, inputs, inputs.draft), inputs, budget)
    method = _specexec(options, inputs, inputs.draft)
    return ChosenMethod(
        Lookup(method, method.name, inputs.end_tokens, inputs.predicted) if speculation.lookup else method, options
    )


def strategy_for(chosen: ChosenMethod, inputs: MethodInputs, budget: int) -> Strategy:
    """`Auto` where the options leave the size to it, else the method with the budget that was asked for.

    `budget`: the nodes of trees for which no number was asked. Only `method="auto"` may end in another method, or in
    no tree.
    """
    method, speculation = chosen.method, chosen.options.speculation
    if method.name in SAMPLED:
        return Fixed(method, speculation.budget or budget, speculation.depth)
    if speculation.budget or method.name not in SAME_TEXT:
        return Fixed(method, 0 if method.name == "none" else speculation.budget or budget)
    methods, plain = [method], None
    if speculation.method == "auto":
        plain = Autoregression(inputs.sampling)
        if speculation.lookup and method.name != "lookup":
            methods.append(Lookup(plain, "lookup", inputs.end_tokens, inputs.predicted))
    largest = min(LARGEST, inputs.largest_tree)
    throughput = inputs.learned().throughput
    return Auto(
        methods, plain, throughput, largest, speculation.depth,
        routing=inputs.routing, expected=inputs.expected, is_trial=inputs.is_trial,
    )  # fmt: skip


def _specexec(options: GenerateOptions, inputs: MethodInputs, draft: Scorer) -> SpecExec:
    kind = BorrowingSpecExec if inputs.forgets else SpecExec
    calibration = inputs.learned().calibration if options.speculation.calibrate else None
    ranks = inputs.counts if options.sampling.temperature == 0 else None
    return kind(
        draft, inputs.sampling, options.speculation, inputs.vocabulary, calibration, inputs.observer, ranks,
        inputs.likeliest, inputs.end_tokens,
    )  # fmt: skip


def _sampled(options: GenerateOptions, inputs: MethodInputs, draft: Scorer) -> ChosenMethod:
    """The method among `SAMPLED`, with its own random numbers."""
    rng, sampling = Rng(options.sampling.seed, inputs.device), options.sampling
    prompt, vocabulary, ends = inputs.prompt, inputs.vocabulary, inputs.end_tokens
    drafting = Drafting(draft, inputs.sampling, sampling, prompt, vocabulary, rng, inputs.observer, ends)
    speculation = options.speculation
    if speculation.method == "sequoia":
        return _sequoia(drafting, options, inputs)
    if speculation.method == "specinfer":
        return ChosenMethod(SpecInfer(drafting, speculation.expansions, inputs.counts.vector()), options)
    return ChosenMethod(Chain(drafting), options)


def _fitted(chosen: ChosenMethod, inputs: MethodInputs, budget: int) -> ChosenMethod:
    """Of a mixture, sampled trees as large as pays for their experts, up to `budget`, where no size was asked for."""
    speculation = chosen.options.speculation
    if inputs.mixture is None or speculation.budget:
        return chosen
    acceptance = inputs.counts.vector()[: 1 if chosen.method.name == "chain" else None]
    nodes, _ = size_for(inputs.mixture, acceptance, budget, speculation.depth)
    note = chosen.note
    if not nodes:
        note = say("A sampled tree cannot pay here, as each token touches other experts: one token is drafted a round.")
    options = replace(chosen.options, speculation=replace(speculation, budget=max(1, nodes)))
    return replace(chosen, options=options, note=note)


def _sequoia(drafting: Drafting, options: GenerateOptions, inputs: MethodInputs) -> ChosenMethod:
    """Sequoia with the shapes that are asked for: a prescribed one, those of a measurement, or learned ones."""
    speculation = options.speculation
    if speculation.grow_map:
        shape = TreeShape(speculation.grow_map)
        speculation = replace(speculation, budget=len(shape) - 1, depth=max(speculation.depth, shape.levels - 1))
        return ChosenMethod(Sequoia(drafting, PrescribedShape(shape)), replace(options, speculation=speculation))
    measured = inputs.measured()
    found, note = measured.found, measured.note
    if found is None:
        shapes = PlannedShapes(PRIOR) if speculation.acceptance == UNMEASURED else LearnedShapes(inputs.counts)
        return ChosenMethod(Sequoia(drafting, shapes), options, note)
    if not speculation.budget and measured.is_current:
        program = program_for(found.acceptance, LARGEST, min(speculation.depth + 1, MOST_LEVELS))
        budget, depth = program.best_size(found.draft_seconds, found.target_seconds, speculation.depth)
        if not budget:
            note = say("As measured here, no tree of Sequoia's pays: the smallest is grown.")
        speculation = replace(speculation, budget=max(1, budget), depth=max(1, depth))
    options = replace(options, speculation=speculation)
    return ChosenMethod(Sequoia(drafting, PlannedShapes(found.acceptance)), options, note)
