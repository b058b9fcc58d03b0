"""Every way that `plan` tells of, as predicted and as it comes: one token per pass, a small tree, the best tree.

`python -m tests.bench.plan_accuracy --only ways` runs it, on the embedded pair widened by zeros and on a random
mixture, each in memory and streamed from SSD. What the plan says is taken three times: `before` the pair was ever
loaded, with the machine measured; `loaded`, when the pair has tried itself; and after one `answer`. Then every way is
run, and what the plan would have chosen by itself (`auto`). `others`: the part of all processors that other programs
used meanwhile; with much of it, seconds say who else was at work.

The texts are those that a pair tries itself with: how much trees give differs from text to text, by a factor of two.
The random mixture accepts next to nothing: there it is seconds that are compared.
"""

import json
import shutil
import statistics
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import torch

from engine.cli.session import Session
from engine.loading.measurements.arithmetic import find_arithmetic
from engine.loading.measurements.benchmark import benchmark_of
from engine.loading.pair import PairIdentity, open_pair
from engine.loading.planning import case_of, plan_pair, tree_yields
from engine.loading.rates import MeasuredHere, measure_draft, question_for
from engine.loading.ways import ways_for
from engine.model.device import Arithmetic, choose_device
from engine.protocol.messages import ChatMessage, Round
from engine.protocol.options import GenerateOptions, LoadOptions, Place, SamplingOptions, SpeculationOptions
from engine.trial import QUESTIONS
from engine.weights.planning.ways import NO_TREE, Way, Ways, outlook
from tests.bench.inflate import EMBEDDED, inflate
from tests.engine.tiny_models import tiny_model

DRAFT = EMBEDDED.parent / "demo-draft"
CONTEXT = 512
TOKENS, PLAIN_TOKENS = 64, 6
PLACES: tuple[Place, ...] = ("device", "ssd")
MODELS = ("dense", "mixture")
PARTS = ("draft", "target", "other")


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What the plan says of each way at one time, and what it expects of trees of any size."""

    ways: Ways
    at: Callable[[Way], Way]


def ways_table(
    scratch: Path,
    model_bytes: int,
    device: str,
    weights: Sequence[str] = ("auto",),
    names: Sequence[str] = MODELS,
    places: Sequence[str] = PLACES,
) -> Iterator[dict[str, Any]]:
    """Predicted and real figures of every way, model, format and place; models that `scratch` has are not made anew."""
    made = {
        "dense": lambda folder: inflate(folder, model_bytes),
        "mixture": random_mixture,
    }
    for name in names:
        folder = scratch / name if name in made else Path(name)
        if not folder.exists():
            made[name](folder)
        for each in weights:
            for place in (place for place in PLACES if place in places):
                cache = scratch / f"cache-{folder.name}-{each}-{place}"
                shutil.rmtree(cache, ignore_errors=True)
                options = LoadOptions(
                    str(folder), str(DRAFT), device, weights=each, context_tokens=CONTEXT, place=place,
                    cache_dir=str(cache),
                )  # fmt: skip
                where = {"model": folder.name, "weights": each, "place": place}
                for row in _ways(options):
                    print(json.dumps({**where, **row}), file=sys.stderr, flush=True)  # whatever becomes of the rest
                    yield {**where, **row}
                shutil.rmtree(cache, ignore_errors=True)


def random_mixture(folder: Path) -> Path:
    """0.6 GB of random experts, of which a token is routed to 4 of 32, with the embedded tokenizer."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 1024, "num_hidden_layers": 4, "moe_intermediate_size": 768, "intermediate_size": 1024}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64}
    experts = {"num_experts": 32, "num_experts_per_tok": 4}
    model = tiny_model("qwen3_moe", dtype=torch.bfloat16, vocab_size=4096, **sizes, **heads, **experts)
    model.save_pretrained(folder, max_shard_size="150MB")
    for path in EMBEDDED.glob("*token*"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def _ways(options: LoadOptions) -> Iterator[dict[str, Any]]:
    """Measures the machine, loads the pair, has it answer once, and runs every way; one row for each."""
    pair, device = open_pair(options).identity, choose_device(options.device)
    begin = time.perf_counter()
    arithmetic = find_arithmetic(pair, device, lambda: None)
    cache = Path(options.cache_dir)
    measured = benchmark_of(pair.target, options.weights, device, cache, arithmetic).measure(lambda: None)
    here = measure_draft(pair, MeasuredHere(device, measured), lambda: None, arithmetic)
    seconds = {"measuring": time.perf_counter() - begin}
    told = {"before": _foreseen(pair, here, arithmetic)}
    begin = time.perf_counter()
    session = Session(options, quiet=True)
    seconds["loading"] = time.perf_counter() - begin
    try:
        told["loaded"] = _foreseen(pair, here, arithmetic)
        _answer(session, SpeculationOptions(), TOKENS, QUESTIONS[0])
        told["answer"] = _foreseen(pair, here, arithmetic)
        for asked in _as_asked(told["answer"].ways):
            trees = SpeculationOptions("specexec", asked.nodes, depth=asked.depth or 32)
            speculation = trees if asked.nodes else SpeculationOptions("none")
            figures = {name: _figures(each.at(asked)) for name, each in told.items()}
            yield {**_compared(session, asked, speculation, figures), **seconds}
        best = {name: each.ways.best for name, each in told.items()}
        if way := best["answer"]:
            figures = {name: _figures(each) for name, each in best.items() if each}
            yield _compared(session, replace(way, name="auto"), SpeculationOptions(), figures)  # type: ignore[arg-type]
    finally:
        session.engine.close()


def _as_asked(ways: Ways) -> list[Way]:
    return [way for way in ways.all if way.name in ("plain", "small", "tree")]


def _foreseen(pair: PairIdentity, here: MeasuredHere, arithmetic: Arithmetic | None) -> Foreseen:
    """As `plan` would say it now."""
    question = question_for(pair, here, arithmetic=arithmetic)
    found = plan_pair(pair.target, pair.draft, here.device, question)
    ways = ways_for(
        pair.target, pair.draft, here.device, question, found, Path(pair.options.cache_dir), with_others=False
    )

    held = replace(question, kv_form=found.kv_form, context_tokens=found.context_tokens)
    case, trees = case_of(pair.target, pair.draft, here.device, held), [NO_TREE, *tree_yields(question)]

    def at(way: Way) -> Way:
        """The same way with what is expected now."""
        tree = min(trees, key=lambda each: abs(each.nodes - way.nodes))
        given = outlook(case, found, tree)
        figures = {"tokens_per_pass": given.tokens_per_pass, "seconds": given.seconds_per_round, "levels": tree.levels}
        return replace(way, forecast=given, **figures)  # type: ignore[arg-type]

    return Foreseen(ways, at)


def _compared(
    session: Session, way: Way, speculation: SpeculationOptions, figures: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    count = PLAIN_TOKENS if speculation.method == "none" else TOKENS
    busy, own, begin = _busy_seconds(), time.process_time(), time.perf_counter()
    answers = [_answer(session, speculation, count, text) for text in QUESTIONS]
    passed = time.perf_counter() - begin
    others = (_busy_seconds() - busy) - (time.process_time() - own)
    tokens_per_pass = statistics.fmean(each.new_tokens for answer in answers for each in answer[:-1])
    rounds = [each for answer in answers for each in answer[1:]]
    seconds = statistics.fmean(each.seconds.decode for each in rounds)
    real = {
        "tokens_per_second": tokens_per_pass / seconds,
        "seconds": seconds,
        "median_seconds": statistics.median(each.seconds.decode for each in rounds),
        "tokens_per_pass": tokens_per_pass,
        "levels": statistics.fmean(_levels(each) for each in rounds),
        **{part: statistics.median(getattr(each.seconds, part) for each in rounds) for part in PARTS},
    }
    ratios = {
        name: {key: value / real[key] for key, value in each.items() if real.get(key)} for name, each in figures.items()
    }
    return {
        "way": way.name,
        "nodes": way.nodes,
        "depth": way.depth,
        "bound": way.bound,
        "others": max(0.0, others) / (passed * psutil.cpu_count()),
        "real": real,
        "predicted": figures,
        "predicted_over_real": ratios,
    }


def _busy_seconds() -> float:
    """Of all processors, and what the machine that runs this one took of them."""
    times = psutil.cpu_times()
    return float(times.user + times.system + getattr(times, "steal", 0.0))


def _levels(event: Round) -> int:
    depths: list[int] = []
    for parent in array("i", event.tree.parents):
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    return max(depths)


def _figures(way: Way) -> dict[str, float]:
    assert way.forecast
    return {
        "tokens_per_second": way.tokens_per_second,
        "seconds": way.seconds,
        "tokens_per_pass": way.tokens_per_pass,
        "draft": way.forecast.draft_seconds,
        "target": way.forecast.seconds_per_pass,
        "levels": way.levels,
    }


def _answer(session: Session, speculation: SpeculationOptions, count: int, text: str) -> list[Round]:
    """Every round; the first, behind the prompt, takes longer, and the answer's end cuts the last one short."""
    options = GenerateOptions(SamplingOptions(temperature=0.0), speculation, count, ignore_eos=True)
    prompt = session.engine.prompt([ChatMessage("user", text)])
    answers = [answer for _, answer in session.answer(prompt, options)]
    return answers[-1].rounds
