"""`bench --calibrate`: how this pair accepts, and how long its passes take where its layers are now."""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from engine.cli.arguments import generate_options
from engine.cli.progress import say
from engine.cli.session import Session
from engine.loading.learned import PairMeasurement
from engine.model.context import Context
from engine.protocol.messages import Round
from engine.protocol.options import UNMEASURED, GenerateOptions
from engine.speculation.methods.acceptance_rates import AcceptanceCounts
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.trees.tree_program import MOST_NODES
from engine.speculation.tuning.pass_time import PassTime
from engine.text.prompt import Prompt

WIDE_BUDGET = 256  # nodes: the usual shape then tries a dozen children at the root
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
REPEATS = 2


def calibrate(arguments: argparse.Namespace, session: Session, prompts: Sequence[Prompt]) -> list[dict[str, Any]]:
    """Measure and keep, per temperature; returns what was found. Raises `InputError` if there is no draft."""
    measurements, draft = session.engine.measurements, session.engine.draft
    assert draft, "measurements are those of a pair"
    # The target first: one that drafts for itself reads a prompt for both.
    sizes = sizes_for(max([*(arguments.budgets or []), arguments.budget]))
    target_seconds, draft_seconds = (
        pass_times(each, prompts[0].tokens, sizes) for each in (session.engine.target, draft)
    )
    found = []
    for options in _options(arguments):
        counts = AcceptanceCounts()
        for prompt in prompts:
            for event in session.collect(prompt, options).rounds:
                counts.observe(_tree(event), Path(event.accepted, event.bonus))
        measured = PairMeasurement(counts.vector(), measurements.placement, draft_seconds, target_seconds)
        path = measurements.remember(options.sampling, measured)
        first = ", ".join(f"{probability:.3f}" for probability in measured.acceptance[:4])
        say(f"calibrated at temperature {options.sampling.temperature:g}: {first}, ...; kept in {path}")
        found.append(
            {
                "temperature": options.sampling.temperature,
                "acceptance": measured.acceptance,
                "draft_seconds": dict(zip(draft_seconds.rows, draft_seconds.seconds, strict=True)),
                "target_seconds": dict(zip(target_seconds.rows, target_seconds.seconds, strict=True)),
                "file": str(path),
            }
        )
    return found


def sizes_for(asked: int) -> tuple[int, ...]:
    """Sizes to measure: the usual ones, and doublings up to the largest tree that is asked for."""
    sizes = list(SIZES)
    while sizes[-1] < min(asked, MOST_NODES):
        sizes.append(min(2 * sizes[-1], MOST_NODES))
    return tuple(sizes)


def pass_times(context: Context, text: Sequence[int], sizes: Sequence[int] = SIZES) -> PassTime:
    """Seconds of a pass behind `text`, the best of a few, for trees of every one of `sizes`."""
    context.prefill(text[:-1])
    seconds = tuple(min(_timed(context, text[-1], nodes) for _ in range(REPEATS)) for nodes in sizes)
    return PassTime(tuple(sizes), seconds)


def _timed(context: Context, token: int, nodes: int) -> float:
    """Seconds of a pass over a tree of different tokens: equal ones would be routed to the same few experts."""
    vocabulary = context.network.vocabulary
    stride = max(1, vocabulary // nodes)
    tokens = [(token + node * stride) % vocabulary for node in range(nodes)]
    begin = time.perf_counter()
    context.score(tokens, [-1] + [0] * (nodes - 1))
    seconds = time.perf_counter() - begin
    context.keep([])
    return seconds


def _options(arguments: argparse.Namespace) -> Iterator[GenerateOptions]:
    """The options of an answer by Sequoia's widest usual tree, for every temperature that is asked for."""
    options = generate_options(arguments, "sequoia", WIDE_BUDGET, arguments.seed)
    options = replace(options, speculation=replace(options.speculation, acceptance=UNMEASURED))
    for temperature in arguments.temperatures or [arguments.temperature]:
        yield replace(options, sampling=replace(options.sampling, temperature=temperature))


def _tree(event: Round) -> Tree:
    tokens, parents = (tuple(memoryview(part).cast("i")) for part in (event.tree.tokens, event.tree.parents))
    return Tree(tokens, parents, tuple(memoryview(event.tree.log_probs).cast("f")))
