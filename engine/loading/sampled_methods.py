"""The methods that sample their trees, as one answer needs them: with their settings, and Sequoia at its best size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.loading.learned import PairMeasurement, PairMeasurements
from engine.loading.oom_retry import GuardedContext
from engine.model.context import Context
from engine.protocol.options import UNMEASURED, GenerateOptions
from engine.protocol.sentences import joined, say
from engine.speculation.method import Method, Sampling
from engine.speculation.methods.acceptance_counts import AcceptanceCounts
from engine.speculation.methods.chain import Chain
from engine.speculation.methods.chance import Chance
from engine.speculation.methods.drafting import Drafting
from engine.speculation.methods.sequoia import Sequoia
from engine.speculation.methods.shapes import Learnt, Planned, Prescribed
from engine.speculation.methods.specinfer import SpecInfer
from engine.speculation.trees.acceptance_vector import PRIOR
from engine.speculation.trees.tree_programme import MOST_LEVELS, programme_for
from engine.speculation.trees.tree_shape import TreeShape
from engine.speculation.tuning.tree_size import best_tree
from engine.speculation.witness import Witness

SAMPLED: tuple[str, ...] = ("sequoia", "specinfer", "chain")
MOST_AUTOMATIC = 1024  # nodes of a tree that the optimiser may choose


@dataclass(frozen=True, slots=True)
class SampledMethod:
    """`options` are the answer's, with Sequoia's best size where none was asked for; `note`: on what it stands."""

    method: Method
    options: GenerateOptions
    note: str = ""


def sampled_method(
    options: GenerateOptions,
    sampling: Sampling,
    prompt: Sequence[int],
    target: Context,
    draft: Context,
    measurements: PairMeasurements,
    counts: AcceptanceCounts,
    witness: Witness | None = None,
) -> SampledMethod:
    """The method that `options` name, one of `SAMPLED`; `witness` sees its trees grow.

    `counts`: how children were accepted so far, which Sequoia plans by where nothing was measured.

    Raises `InputError` for a measurement that cannot be used.
    """
    chance = Chance(options.sampling.seed, draft.network.device)
    guarded, vocabulary = GuardedContext(draft, say("the draft")), target.network.vocabulary
    drafting = Drafting(guarded, sampling, options.sampling, prompt, vocabulary, chance, witness)
    speculation = options.speculation
    if speculation.method == "sequoia":
        return _sequoia(drafting, options, measurements, counts)
    if speculation.method == "specinfer":
        method = SpecInfer(drafting, speculation.depth, speculation.expansions, counts.vector())
        return SampledMethod(method, options)
    return SampledMethod(Chain(drafting, speculation.depth), options)


def _sequoia(
    drafting: Drafting, options: GenerateOptions, measurements: PairMeasurements, counts: AcceptanceCounts
) -> SampledMethod:
    speculation = options.speculation
    if speculation.grow_map:
        shape = TreeShape(speculation.grow_map)
        speculation = replace(speculation, budget=len(shape) - 1, depth=max(speculation.depth, shape.levels - 1))
        method = Sequoia(drafting, speculation.depth, Prescribed(shape))
        return SampledMethod(method, replace(options, speculation=speculation))
    measured, note = _measured(options, measurements)
    if measured is None:
        shapes = Planned(PRIOR) if speculation.acceptance == UNMEASURED else Learnt(counts)
        return SampledMethod(Sequoia(drafting, speculation.depth, shapes), options, note)
    if not speculation.budget and measured.placement == measurements.placement:
        programme = programme_for(measured.acceptance, MOST_AUTOMATIC, min(speculation.depth + 1, MOST_LEVELS))
        size = best_tree(programme, measured.draft_seconds, measured.target_seconds, speculation.depth)
        if not size.budget:
            note = say("As measured here, no tree of Sequoia's pays: the smallest is grown.")
        speculation = replace(speculation, budget=max(1, size.budget), depth=max(1, size.depth))
    method = Sequoia(drafting, speculation.depth, Planned(measured.acceptance))
    return SampledMethod(method, replace(options, speculation=speculation), note)


def _measured(options: GenerateOptions, measurements: PairMeasurements) -> tuple[PairMeasurement | None, str]:
    named = options.speculation.acceptance
    if named == UNMEASURED:
        return None, ""
    if named:
        return measurements.read(Path(named)), ""
    measured, why = measurements.recall(options.sampling)
    return measured, joined((why, say("Sequoia learns it while it writes."))) if why else ""
