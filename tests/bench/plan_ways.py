"""Every way that `plan` tells of, as foretold and as it comes.

`python -m tests.bench.plan_accuracy --only ways` runs it, on the embedded pair widened by zeros and on a random
mixture, each in memory and streamed from SSD. What the plan says is taken three times: `before` the pair was ever
loaded, with the machine measured; `loaded`, when the pair has tried itself; and `learned`, after it has answered some
prompts as a window would ask them. Then every way answers the same prompts with another seed, or others of the same
kind (`--prompts halves`, or `swapped`), in turns: prompt by prompt each way once. What comes is tokens over seconds of
decoding, as the window tells them, first and last rounds included; one token per pass is cut short, as its rounds are
all alike.

How much trees give differs from text to text, for the embedded pair by a factor of five. `error` is the standard error
of what came with such prompts, and of what was learned the same for as many: where the plan of other prompts is off by
about as much, these say no more. `machine`: seconds of a fixed product before learning, after it and after all, over
those before; and `others`, the part of all processors that other programs used meanwhile. With much of either, seconds
say who else was at work. The random mixture accepts next to nothing: there it is seconds that are compared.
"""

import json
import math
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import torch

from engine.cli.session import CollectedAnswer, Session
from engine.loading.measurements.arithmetic import find_arithmetic
from engine.loading.measurements.benchmark import benchmark_of
from engine.loading.pair import PairIdentity, open_pair
from engine.loading.planning import case_of, plan_pair, tree_yields
from engine.loading.rates import MeasuredHere, measure_draft, question_for
from engine.loading.ways import ways_for
from engine.model.device import Arithmetic, choose_device
from engine.protocol.messages import ChatMessage
from engine.protocol.options import GenerateOptions, LoadOptions, Place, SamplingOptions, SpeculationOptions
from engine.weights.planning.ways import NO_TREE, Way, Ways, in_answers, outlook
from tests.bench.inflate import EMBEDDED, inflate
from tests.bench.plan_prompts import CHOSEN, PROMPTS, Kind
from tests.engine.tiny_models import tiny_model

DRAFT = EMBEDDED.parent / "demo-draft"
CONTEXT = 512
TOKENS, PLAIN_TOKENS = 192, 6
PLAIN_SECONDS = 1.0  # of one token per pass at least: the first rounds of an answer may take longer
TEMPERATURE = 0.6  # as the window asks
LEARNED, MEASURED = 1, 2  # seeds
PLACES: tuple[Place, ...] = ("device", "ssd")
MODELS = ("dense", "mixture")
PRODUCT = (4096, 4096)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What the plan says of each way at one time, and what it expects of trees of any size."""

    ways: Ways
    at: Callable[[Way], Way]

    def of(self, way: Way) -> Way | None:
        """The same way as it was foretold then; of what is chosen, what was expected."""
        return self.ways.expected if way.name == "answers" else self.at(way)


@dataclass(frozen=True, slots=True)
class Came:
    """One answer: tokens, passes, and seconds of decoding."""

    tokens: int
    passes: int
    seconds: float


def ways_table(
    scratch: Path,
    model_bytes: int,
    device: str,
    weights: Sequence[str] = ("auto",),
    names: Sequence[str] = MODELS,
    places: Sequence[Place] = PLACES,
    kinds: Sequence[str] = tuple(PROMPTS),
    tokens: int = TOKENS,
    prompts: str = "same",
) -> Iterator[dict[str, Any]]:
    """Foretold and real figures of every way, model, format, place and kind of prompts.

    Models that `scratch` has are not made anew. `tokens`: of an answer, at most. `prompts`: a name of `CHOSEN`.
    """
    made = {
        "dense": lambda folder: inflate(folder, model_bytes),
        "mixture": random_mixture,
    }
    for name in names:
        folder = scratch / name if name in made else Path(name)
        if not folder.exists():
            made[name](folder)
        for each in weights:
            for place in places:
                for kind in kinds:
                    cache = scratch / f"cache-{folder.name}-{each}-{place}-{kind}"
                    shutil.rmtree(cache, ignore_errors=True)
                    options = LoadOptions(
                        str(folder), str(DRAFT), device, weights=each, context_tokens=CONTEXT, place=place,
                        cache_dir=str(cache),
                    )  # fmt: skip
                    where = {"model": folder.name, "weights": each, "place": place, "kind": kind, "prompts": prompts}
                    for row in _ways(options, CHOSEN[prompts](PROMPTS[kind]), tokens):
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


def _ways(options: LoadOptions, kind: Kind, tokens: int) -> Iterator[dict[str, Any]]:
    """Measures the machine, has the pair answer some prompts, and runs every way on others; a row for each."""
    pair, device = open_pair(options).identity, choose_device(options.device)
    machine, begin = [_product_seconds()], time.perf_counter()
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
        learned = [_answer(session, SpeculationOptions(), tokens, text, LEARNED) for text in kind.learned]
        told["learned"] = _foreseen(pair, here, arithmetic)
        machine.append(_product_seconds())
        busy, own, begin = _busy_seconds(), time.process_time(), time.perf_counter()
        ways = _as_asked(told["learned"].ways)
        came = _in_turns(session, ways, kind.measured, tokens)
        others = max(0.0, (_busy_seconds() - busy) - (time.process_time() - own))
        machine.append(_product_seconds())
        about = {
            "machine": [each / machine[0] for each in machine[1:]],
            "others": others / ((time.perf_counter() - begin) * psutil.cpu_count()),
            "learned": {"answers": len(learned), **_figures_of(learned)},
            **seconds,
        }
        for way in ways:
            yield {**_compared(way, came[way], told), **about}
    finally:
        session.engine.close()


def _as_asked(ways: Ways) -> list[Way]:
    """Each way that can be asked for, and what is chosen where nothing is."""
    found = [way for way in ways.all if way.name in ("plain", "small", "tree")]
    return [*found, replace(found[-1], name="answers")]


def _in_turns(session: Session, ways: Sequence[Way], texts: Sequence[str], tokens: int) -> Mapping[Way, list[Came]]:
    came: dict[Way, list[Came]] = {way: [] for way in ways}
    for number, text in enumerate(texts):
        for way in (*ways[number % len(ways) :], *ways[: number % len(ways)]):
            if way.name == "plain":
                count = min(tokens, max(PLAIN_TOKENS, round(PLAIN_SECONDS / way.seconds)))
                came[way].append(_answer(session, SpeculationOptions("none"), count, text))
                continue
            asked = SpeculationOptions("specexec", way.nodes, depth=way.depth or 32)
            speculation = SpeculationOptions() if way.name == "answers" else asked
            came[way].append(_answer(session, speculation, tokens, text))
    return came


def _answer(session: Session, speculation: SpeculationOptions, count: int, text: str, seed: int = MEASURED) -> Came:
    options = GenerateOptions(SamplingOptions(temperature=TEMPERATURE, seed=seed), speculation, count)
    prompt = session.engine.prompt([ChatMessage("user", text)])
    answer: CollectedAnswer = [answer for _, answer in session.answer(prompt, options)][-1]
    found = answer.statistics
    return Came(found.new_tokens, found.passes, found.seconds.decode)


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
        given = in_answers(outlook(case, found, tree), ways.beyond)
        figures = {"tokens_per_pass": given.tokens_per_pass, "seconds": given.seconds_per_round}
        return replace(way, forecast=given, **figures)  # type: ignore[arg-type]

    return Foreseen(ways, at)


def _compared(way: Way, came: Sequence[Came], told: Mapping[str, Foreseen]) -> dict[str, Any]:
    real = _figures_of(came)
    foretold = {name: _figures(found) for name, each in told.items() if (found := each.of(way))}
    rates = [each.tokens / each.seconds for each in came]
    return {
        "way": "auto" if way.name == "answers" else way.name,
        "nodes": 0 if way.name == "answers" else way.nodes,
        "bound": way.bound,
        "texts": len(came),
        "real": {**real, "error": _error(came), "least": min(rates), "most": max(rates)},
        "predicted": foretold,
        "predicted_over_real": {
            name: {key: value / real[key] for key, value in figures.items()} for name, figures in foretold.items()
        },
    }


def _figures_of(came: Sequence[Came]) -> dict[str, float]:
    tokens, passes, seconds = (sum(getattr(each, name) for each in came) for name in ("tokens", "passes", "seconds"))
    return {
        "tokens_per_second": tokens / seconds,
        "tokens_per_pass": tokens / passes,
        "seconds": seconds / passes,
    }


def _figures(way: Way) -> dict[str, float]:
    return {
        "tokens_per_second": way.tokens_per_second,
        "tokens_per_pass": way.tokens_per_pass,
        "seconds": way.seconds,
    }


def _error(came: Sequence[Came]) -> float:
    """The standard error of their tokens per pass, as a part of it: as other texts of the kind would differ."""
    mean = sum(each.tokens for each in came) / sum(each.passes for each in came)
    usual = statistics.fmean(each.passes for each in came)
    squares = sum((each.tokens - mean * each.passes) ** 2 for each in came) / (len(came) - 1)
    return math.sqrt(squares / len(came)) / (mean * usual)


def _product_seconds() -> float:
    """The least time of a product as a pass of a tree has it, which says how fast the machine is now."""
    weights, states = torch.ones(*PRODUCT), torch.ones(17, PRODUCT[1])
    found = []
    for _ in range(5):
        begin = time.perf_counter()
        torch.nn.functional.linear(states, weights)
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def _busy_seconds() -> float:
    """Of all processors, and what the machine that runs this one took of them."""
    times = psutil.cpu_times()
    return float(times.user + times.system + getattr(times, "steal", 0.0))
