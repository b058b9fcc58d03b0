"""The methods that sample their trees, as one answer needs them: with their settings, and Sequoia at its best size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.loading.guarded_context import GuardedContext
from engine.loading.pair_measurement import PairMeasurement, PairMeasurements
from engine.model.context import Context
from engine.protocol.options import UNMEASURED, GenerateOptions
from engine.speculation.interfaces import Method, Observer, Sampling
from engine.speculation.methods.acceptance_counts import AcceptanceCounts
from engine.speculation.methods.rng import Rng
from engine.speculation.methods.sampled_trees import Drafting
from engine.speculation.methods.sequoia import LearnedShapes, PlannedShapes, PrescribedShape, Sequoia
from engine.speculation.methods.specinfer import Chain, SpecInfer
from engine.speculation.trees.tree_program import MOST_LEVELS, PRIOR, TreeShape, program_for
from engine.speculation.tuning.tree_size import best_tree

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
    observer: Observer | None = None,
) -> SampledMethod:
    """The method that `options` name, one of `SAMPLED`; `observer` sees its trees grow.

    `counts`: how children were accepted so far, which Sequoia plans by where nothing was measured.

    Raises `InputError` for a measurement that cannot be used.
    """
    rng = Rng(options.sampling.seed, draft.network.device)
    guarded, vocabulary = GuardedContext(draft, "the draft"), target.network.vocabulary
    drafting = Drafting(guarded, sampling, options.sampling, prompt, vocabulary, rng, observer)
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
        method = Sequoia(drafting, speculation.depth, PrescribedShape(shape))
        return SampledMethod(method, replace(options, speculation=speculation))
    measured, note = _measured(options, measurements)
    if measured is None:
        shapes = PlannedShapes(PRIOR) if speculation.acceptance == UNMEASURED else LearnedShapes(counts)
        return SampledMethod(Sequoia(drafting, speculation.depth, shapes), options, note)
    if not speculation.budget and measured.placement == measurements.placement:
        program = program_for(measured.acceptance, MOST_AUTOMATIC, min(speculation.depth + 1, MOST_LEVELS))
        size = best_tree(program, measured.draft_seconds, measured.target_seconds, speculation.depth)
        if not size.budget:
            note = "As measured here, no tree of Sequoia's pays: the smallest is grown."
        speculation = replace(speculation, budget=max(1, size.budget), depth=max(1, size.depth))
    method = Sequoia(drafting, speculation.depth, PlannedShapes(measured.acceptance))
    return SampledMethod(method, replace(options, speculation=speculation), note)


def _measured(options: GenerateOptions, measurements: PairMeasurements) -> tuple[PairMeasurement | None, str]:
    named = options.speculation.acceptance
    if named == UNMEASURED:
        return None, ""
    if named:
        return measurements.read(Path(named)), ""
    measured, why = measurements.recall(options.sampling)
    return measured, f"{why} Sequoia learns it while it writes." if why else ""
