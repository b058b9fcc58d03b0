"""What a pair gave at its last answers, and the planner's question that follows from all that is known here."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from engine.loading.answered import Answered, given_by, steadied
from engine.loading.learned import LearnedState
from engine.loading.measurements.benchmark import draft_benchmark, machine_key, target_benchmark
from engine.loading.measurements.rates_file import LastAnswer, Measured, RatesFile, SeenHere
from engine.loading.measurements.tree_record import TreeRecord
from engine.loading.pair import Pair, PairIdentity, drafts_with_heads
from engine.loading.planning import Question
from engine.loading.preparation import draft_rounds, rounds
from engine.loading.store import cache_root
from engine.model.device import Arithmetic, choose_device
from engine.protocol.messages import Statistics
from engine.protocol.options import SELF_DRAFT, SpeculationOptions
from engine.speculation.tuning.throughput_model import BUDGETS, DEPTHS, ThroughputModel
from engine.weights.planning.arrangement import Tier
from engine.weights.planning.machine import Memory
from engine.weights.planning.needs import KvForm
from engine.weights.planning.placement import Override
from engine.weights.planning.seen import Seen
from engine.weights.planning.ways import TreeYield

LEAST_PASSES = 8  # of an answer that says something
MOST_ANSWERS = 32  # that a plan rests on
EARLIER = 4  # answers that say at what pace rounds usually go
LEAST_TREES = 4  # that say something: each tells of trees of all sizes at once
PLANNED = "specexec"  # the method whose trees plans are for


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pair has learned: the device, where each layer of the target was, and how keys and values were kept."""

    device: torch.device
    tiers: Sequence[Tier]
    kv_form: KvForm = "computed"

    @property
    def name(self) -> str:
        """Tells places apart, briefly."""
        text = f"{machine_key(self.device)} | {self.layers} | {self.kv_form}"
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def layers(self) -> tuple[int, int, int]:
        """How many of the target's layers are on the device, in RAM and on SSD."""
        device, ram, ssd = (list(self.tiers).count(tier) for tier in ("device", "ram", "ssd"))
        return device, ram, ssd


def remember_answer(
    pair: Pair,
    speculation: SpeculationOptions,
    statistics: Statistics,
    learned: LearnedState | None = None,
    place: Place | None = None,
) -> None:
    """Keep tokens and seconds per pass of an answer that was drafted for, and long enough, under method and budget.

    `learned`: by answers of this kind, what trees give, and what rounds take in this `place`. It counts, too, where
    each answer was short.
    """
    drafts = pair.draft is not None or pair.drafts_itself
    trees = _trees(learned.throughput, learned.record) if learned else ()
    is_short = statistics.passes < LEAST_PASSES or not statistics.drafted_nodes
    if not drafts or (is_short and not trees) or not statistics.passes:
        return
    key = pair.identity.by_folders(speculation.budget, speculation.method)
    seconds = statistics.seconds.decode / statistics.passes
    seen = seen_of(learned, place) if learned and place else None
    file = RatesFile(cache_root(pair.options))
    before = file.recall_answer(key)
    answered = Answered(
        statistics.new_tokens,
        statistics.passes,
        statistics.seconds.decode,
        statistics.drafted_nodes,
        place.name if place else "",
    )
    answers = (*(before.answers if before else ()), answered)[-MOST_ANSWERS:]
    if seen and place:
        here = [each for each in answers if each.place == answered.place]
        seen = _among(seen, before.seen if before and sees(before, place) else None)
        given = given_by(here)
        if given and learned:
            given = replace(given, beyond=learned.throughput.beyond)
        seen = replace(seen, rounds=replace(seen.rounds, given=given))
    file.remember_answer(key, LastAnswer(statistics.tokens_per_pass, seconds, trees, seen, answers))


def seen_of(state: LearnedState, place: Place) -> SeenHere | None:
    """What rounds took; None before two of one size.

    Trees that size themselves are often found in what was drafted before, so that they tell little of drafting others.
    """
    learned = state.throughput
    passes, stats = learned.passes.known, learned.methods.get(PLANNED)
    if passes is None:
        return None
    levels = state.record.drafting or (stats.drafting.known if stats else None)
    rounds = Seen(place.layers, passes, learned.passes.hidden, levels, place.kv_form)
    return SeenHere(machine_key(place.device), rounds)


def _among(seen: SeenHere, before: SeenHere | None) -> SeenHere:
    """The same beside what rounds took by the answers before, in the same place."""
    earlier, now = before.earlier if before else (), seen.rounds.passes
    return replace(
        seen,
        rounds=replace(seen.rounds, passes=steadied(now, earlier)),
        earlier=(*earlier, now)[-EARLIER:],
    )


def sees(known: LastAnswer, place: Place) -> bool:
    """Whether it tells what rounds take in this place, on this machine."""
    if known.seen is None or known.seen.machine != machine_key(place.device):
        return False
    return (known.seen.rounds.tiers, known.seen.rounds.kv_form) == (place.layers, place.kv_form)


def _trees(learned: ThroughputModel, record: TreeRecord) -> tuple[TreeYield, ...]:
    """Of each size the depth that gives most tokens per second by now, and what it gave in all answers.

    Nothing before some trees were seen.
    """
    stats = learned.methods.get(PLANNED)
    if stats is None or stats.rounds < LEAST_TREES or not stats.drafting.largest or not record.trees:
        return ()
    model, sizes = stats.acceptance, np.array(BUDGETS)
    rates = model.tokens / learned.seconds(PLANNED, sizes[:, None], model.levels)
    depths = np.where(model.levels > 0.0, rates, 0.0).argmax(axis=1)
    at = np.arange(len(sizes)), depths
    found = map(
        TreeYield, BUDGETS, record.tokens[at].tolist(), record.levels[at].tolist(), map(DEPTHS.__getitem__, depths)
    )
    return tuple(each for each in found if each.levels)


def recall_answer(identity: PairIdentity, budget: int) -> LastAnswer | None:
    """What the pair's last answer with this budget gave: a figure of its own is better than a published one."""
    return RatesFile(cache_root(identity.options)).recall_answer(identity.by_folders(budget))


@dataclass(frozen=True, slots=True)
class MeasuredHere:
    """What was measured of this machine with a pair's weights: the target's, and the draft's, as far as it was."""

    device: torch.device
    target: Measured | None = None
    draft: Measured | None = None


def recall_measured(identity: PairIdentity, device: torch.device, arithmetic: Arithmetic | None = None) -> MeasuredHere:
    """What is known of this machine and a pair; nothing is measured."""
    bench = target_benchmark(identity, device, arithmetic)
    of_draft = draft_benchmark(identity, device, arithmetic)
    return MeasuredHere(device, bench.recall(), of_draft.recall() if of_draft else None)


def measure_draft(
    identity: PairIdentity, measured: MeasuredHere, check: Callable[[], None], arithmetic: Arithmetic | None = None
) -> MeasuredHere:
    """The same with the draft measured, if the target was and there is a draft that was not."""
    bench = draft_benchmark(identity, measured.device, arithmetic)
    if bench is None or measured.target is None or measured.draft is not None:
        return measured
    return replace(measured, draft=bench.measure(check, like=measured.target.rates))


def question_for(
    identity: PairIdentity,
    measured: MeasuredHere | None = None,
    memory: Memory | None = None,
    arithmetic: Arithmetic | None = None,
) -> Question:
    """What the options of a pair ask the planner, with what was measured and learned; nothing is measured for it.

    `memory`: what is free; None to look. `arithmetic`: what is fastest here, likewise.
    """
    options = identity.options
    last_answer = recall_answer(identity, options.budget)
    target, draft = (measured.target, measured.draft) if measured else (None, None)
    seen = last_answer.seen if last_answer and measured else None
    device = measured.device if measured else choose_device(options.device)
    return Question(
        weights=options.weights,
        context_tokens=options.context_tokens,
        budget=options.budget,
        tokens_per_pass=last_answer.mean_tokens_per_pass if last_answer else 0.0,
        rates=target.rates if target else None,
        draft_rates=draft.rates if draft else None,
        arithmetic=arithmetic,
        memory=memory,
        trees=last_answer.trees if last_answer else (),
        recent=last_answer.recent if last_answer else (),
        seen=seen.rounds if seen and measured and seen.machine == machine_key(measured.device) else None,
        drafts_itself=options.draft == SELF_DRAFT,
        drafts_with_heads=drafts_with_heads(options),
        kv=options.kv,
        activations=options.activations,
        is_rounded=rounds(options, identity.target, device, arithmetic),
        draft_is_rounded=identity.draft is not None and draft_rounds(options, identity.draft, device, arithmetic),
        override=Override(
            place=options.place,
            vram_limit=options.vram_limit_bytes or None,
            ram_limit=options.ram_limit_bytes or None,
            force=options.force,
        ),
    )
