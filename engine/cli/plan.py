"""`plan`: where every layer would go on this machine as it is now, what that takes, and what it would give."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from engine.cli import model_options, values
from engine.cli.progress import print_json, say, tell
from engine.protocol.options import LoadOptions
from engine.weights.planning.machine import gib

if TYPE_CHECKING:
    from engine.loading.measurements.rates_file import LastAnswer, Measured
    from engine.loading.pair import PairIdentity
    from engine.loading.planning import Question
    from engine.protocol.messages import CommonTokens, WayTold
    from engine.weights.planning.advice import Told
    from engine.weights.planning.machine import Rates
    from engine.weights.planning.placement import Plan

PURPOSES = {
    "layers": "target layers", "rest": "embeddings, head", "kv": "context", "buffers": "a pass's working space",
    "states": "states of the context, and of a tree", "snapshots": "snapshots of states",
    "draft": "draft, all of it", "ring": "layers in transit", "scratch": "unpacking",
    "expert_cache": "experts in use", "expert_stack": "experts of a layer, one by one",
    "ram_layers": "target layers", "transit": "layers in transit", "ssd": "target layers",
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `plan`."""
    add = parser.add_argument
    model_options.add_pair(parser, force="plan for --place even if it does not fit")
    add("--budget", type=values.budget, default=0, metavar="auto|N", help="drafted nodes per tree (default: auto)")
    tokens = "tokens that a pass gives (default: as this pair's answers had, else assumed)"
    add("--tokens-per-pass", type=values.rate, default=0.0, metavar="N", help=tokens)
    link = "speed from RAM to GPU, in 1e9 bytes a second (default: as measured here, else assumed)"
    add("--link-rate", type=values.rate, default=None, metavar="GB/S", help=link)
    add("--ssd-rate", type=values.rate, default=None, metavar="GB/S", help="the same from SSD to RAM")
    add("--measure", action="store_true", help="measure this machine first, which may take a minute, and remember it")


def plan(arguments: argparse.Namespace) -> None:
    """Run the command; raises `CoppiceError` for bad input. Reads no weights."""
    # torch is imported only behind a command line that makes sense
    from engine.loading.measurements.arithmetic import find_arithmetic, recall_arithmetic  # noqa: PLC0415
    from engine.loading.measurements.benchmark import target_benchmark  # noqa: PLC0415
    from engine.loading.planning import plan_pair  # noqa: PLC0415
    from engine.loading.preparation import COMPRESSED  # noqa: PLC0415
    from engine.loading.rates import (  # noqa: PLC0415
        measure_draft,
        question_for,
        recall_answer,
        recall_measured,
    )
    from engine.loading.store import cache_root, compiled_folder  # noqa: PLC0415
    from engine.loading.ways import told_ways  # noqa: PLC0415
    from engine.model.device import choose_device  # noqa: PLC0415
    from engine.model.products.compiling import keep_compiled_in  # noqa: PLC0415
    from engine.model.shape import model_sizes  # noqa: PLC0415
    from engine.weights.planning.usual_rates import usual_rates  # noqa: PLC0415

    options = model_options.load_options(arguments)
    pair, common = _open(options)
    device = choose_device(arguments.device)
    if arguments.measure:
        say("Measuring this machine.")
        keep_compiled_in(compiled_folder(options))
        find_arithmetic(pair, device, lambda: None)
    arithmetic = recall_arithmetic(options, device)
    here = recall_measured(pair, device, arithmetic)
    if arguments.measure:
        benchmark = target_benchmark(pair, device, arithmetic)
        here = replace(here, target=benchmark.measure(lambda: None), draft=None)
        here = measure_draft(pair, here, lambda: None, arithmetic)
    measured, last_answer = here.target, recall_answer(pair, arguments.budget)
    question = question_for(pair, here, arithmetic=arithmetic)
    formats = () if arguments.weights in COMPRESSED else model_sizes(pair.target).formats
    is_packed = bool(formats) or arguments.weights in COMPRESSED
    question = _as_given(question, arguments, usual_rates(device, is_packed))
    found = plan_pair(pair.target, pair.draft, device, question)
    told = told_ways(pair.target, pair.draft, device, question, found, cache_root(options))
    if arguments.json:
        further = {"common_tokens": asdict(common) if common else None, "formats": formats, **_ways(told)}
        best = None if arguments.budget else told.expected
        print_json({**_document(found, best, pair, measured, last_answer), **further})
    else:
        if formats and not found.arrangement.ready:
            sys.stdout.write(f"Layers stay as they are stored, in {', '.join(formats)}, until they run.\n")
        lines = (*_lines(found, _nodes(pair, question), pair, common, measured, last_answer), *_lines_of_ways(told))
        tell("".join(f"{line}\n" for line in lines))


def _nodes(pair: "PairIdentity", question: "Question") -> int:
    """Of the tree that passes are planned for; 0 where nothing drafts."""
    from engine.loading.planning import AUTO_BUDGET  # noqa: PLC0415

    drafts = pair.draft or question.drafts_itself or question.drafts_with_heads
    return (question.budget or AUTO_BUDGET) if drafts else 0


def _open(options: LoadOptions) -> tuple["PairIdentity", "CommonTokens | None"]:
    """The pair, and what its tokenizers have in common, where they are two; of facts the tokenizer is not here.

    Raises `CoppiceError` for what could not be loaded: that is not planned for.
    """
    from engine.model.architecture import open_architecture  # noqa: PLC0415

    pair, common = _found(options)
    for checkpoint in filter(None, (pair.target, pair.draft)):
        open_architecture(checkpoint)
    return pair, common


def _found(options: LoadOptions) -> tuple["PairIdentity", "CommonTokens | None"]:
    from engine.loading.pair import PairIdentity, draft_for, draft_source, open_draft, open_pair  # noqa: PLC0415
    from engine.model.checkpoint import is_header_only  # noqa: PLC0415
    from engine.model.facts import open_facts  # noqa: PLC0415
    from engine.model.model_folder import find_model  # noqa: PLC0415

    options.check()
    folder = find_model(options.target, "target")
    if not is_header_only(folder):
        pair = open_pair(options)
        return pair.identity, pair.common_tokens
    source, target = draft_source(options), open_facts(folder)
    draft = draft_for(target, open_draft(source) if source else None, options)
    return PairIdentity(target, draft, options), None


def _as_given(question: "Question", arguments: argparse.Namespace, usual: "Rates") -> "Question":
    """The question with what was given by hand in place of what this pair has shown."""
    if arguments.link_rate or arguments.ssd_rate:
        rates = question.rates or usual
        rates = replace(rates, link=arguments.link_rate or rates.link, ssd=arguments.ssd_rate or rates.ssd)
        question = replace(question, rates=rates, seen=None)
    if arguments.tokens_per_pass:
        seen = replace(question.seen, given=None) if question.seen else None
        question = replace(question, tokens_per_pass=arguments.tokens_per_pass, trees=(), recent=(), seen=seen)
    return question


def _document(
    found: "Plan",
    best: "WayTold | None",
    pair: "PairIdentity",
    measured: "Measured | None",
    last_answer: "LastAnswer | None",
) -> dict[str, Any]:
    """Bytes are those at the peak; `peak_rss_bytes` counts what this process holds already.

    `predicted` is of a pass over the tree that was planned for, but for `tokens_per_second`: of the `best` way, where
    trees size themselves.
    `measured_at` is null where the rates are assumed, `last_answer` where this pair has not written any yet.
    """
    from engine.weights.planning.machine import process_bytes  # noqa: PLC0415

    taken, room, forecast = found.bytes, found.room, found.forecast
    return {
        "verdict": found.verdict,
        "reason": found.reason,
        "fits": found.fits,
        "target": pair.target.name,
        "draft": pair.draft.name if pair.draft else None,
        "layers": [
            {"index": index, "tier": tier, "bytes": nbytes}
            for index, (tier, nbytes) in enumerate(zip(found.arrangement.tiers, found.layer_bytes, strict=True))
        ],
        "largest_tree": found.largest_tree,
        "context_tokens": found.context_tokens,
        "kv": found.kv_form,
        "activations": "int8" if found.is_rounded else "exact",
        "bytes": {
            "device": taken.device,
            "ram": taken.ram,
            "ssd": taken.ssd,
            "to_be_pinned": 0 if room.shared else taken.copied_from,
            "device_limit": room.device,
            "ram_limit": room.ram,
            "parts": asdict(taken),
        },
        "predicted": {
            "seconds_per_pass": forecast.seconds_per_pass,
            "tokens_per_second": best.tokens_per_second if best else forecast.tokens_per_second,
            **asdict(forecast),
            "peak_rss_bytes": process_bytes() + room.ram_taken(taken.device, taken.ram),
            "peak_vram_bytes": 0 if room.shared else taken.device,
            "measured_at": measured.at if measured else None,
            "rates": asdict(measured.rates) if measured else None,
            "last_answer": asdict(last_answer) if last_answer else None,
        },
    }


def _lines(
    found: "Plan",
    nodes: int,
    pair: "PairIdentity",
    common: "CommonTokens | None",
    measured: "Measured | None",
    last_answer: "LastAnswer | None",
) -> Iterator[str]:
    """The plan as a person reads it: the sentence, what each kind of memory holds, and what it gives.

    `nodes`: of the tree that passes are told for.
    """
    taken, room, forecast = found.bytes, found.room, found.forecast
    yield f"{pair.target.name}{f' with {pair.draft.name}' if pair.draft else ''}: {found.reason}"
    if common:
        yield common.words
    device_parts = (
        "layers", "rest", "kv", "states", "buffers", "draft", "ring", "scratch", "expert_cache", "expert_stack",
    )  # fmt: skip
    memories: list[tuple[str, str, int, int | None, tuple[str, ...]]] = [
        ("Memory" if room.shared else "GPU", "device", taken.device, room.device, device_parts),
        ("RAM", "ram", taken.ram, room.ram, ("ram_layers", "transit", "snapshots")),
        ("SSD", "ssd", taken.ssd, None, ("ssd",)),
    ]
    for name, tier, nbytes, limit, parts in memories:
        if not nbytes:
            continue
        count = found.arrangement.tiers.count(tier)
        of_limit = "" if limit is None else f" of {gib(limit)}"
        yield f"{name:<8}{count:>4} {'layer ' if count == 1 else 'layers'}  {gib(nbytes):>10}{of_limit}"
        yield from (f"{'':<20}{gib(size):>10}  {PURPOSES[part]}" for part in parts if (size := getattr(taken, part)))
    if taken.copied_from and not room.shared:
        yield f"{gib(taken.copied_from)} of the RAM are to be pinned; what the system refuses is copied once more."
    if found.verdict == "no":
        return
    yield f"Room for trees of up to {found.largest_tree} drafted nodes."
    yield (
        f"{forecast.seconds_per_pass:.3g} s per pass (computing {forecast.compute_seconds:.3g}, "
        f"RAM to GPU {forecast.link_seconds:.3g}, SSD {forecast.ssd_seconds:.3g}) "
        f"{f'over a tree of {nodes} nodes' if nodes else 'over one token'}"
    )
    if last_answer:
        yield (
            f"This pair's last answer: {last_answer.tokens_per_pass:.3g} tokens and "
            f"{last_answer.seconds_per_pass:.3g} s per pass."
        )
    if measured:
        yield f"Rates as measured here at {measured.at}: {_rates_in_words(measured.rates)}."
    else:
        yield "Rates are assumed: --measure finds them out."


def _rates_in_words(rates: "Rates") -> str:
    """What a person may compare with other machines."""
    found = [f"memory {rates.memory:.3g} GB/s", f"SSD {rates.ssd:.3g} GB/s"]
    curves = {"as stored": rates.stored, "ready": rates.products, "beside the GPU": rates.host}
    for name, seconds in curves.items():
        if seconds:
            at = ", ".join(f"{seconds(rows):.2g} s with {rows}" for rows in (1, 16, 64))
            found.append(f"1e9 weights {name} {at} rows")
    return "; ".join([*found, f"{1e3 * rates.call_seconds:.2g} ms a layer besides"])


def _ways(told: "Told") -> dict[str, Any]:
    """For programs; sentences as people read them."""
    ways = [asdict(way) for way in told.ways]
    return {"ways": ways, "trees": told.verdict, "advice": told.advice, "basis": told.basis}


def _lines_of_ways(told: "Told") -> Iterator[str]:
    """What each way gives, whether a tree pays, and what would be faster."""
    from engine.weights.planning.advice import table  # noqa: PLC0415

    if told.ways:
        yield from table(told.ways)
    yield from filter(None, (told.verdict, *told.advice, told.basis))
