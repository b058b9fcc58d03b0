"""Every way that `plan` tells of, as predicted and as it comes: one token per pass, a small tree, the best tree.

`python -m tests.bench.plan_accuracy --only ways` runs it, on the embedded pair widened by zeros and on a random
mixture, each in memory and streamed from SSD. A pair answers the same texts before, which teaches what its trees
give. The random mixture accepts next to nothing: there it is seconds that are compared.
"""

import statistics
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from engine.cli.bench import PROMPTS, read_prompts
from engine.cli.session import Session
from engine.loading.measurements.arithmetic import find_arithmetic
from engine.loading.measurements.benchmark import benchmark_of
from engine.loading.measurements.rates_file import Measured
from engine.loading.pair import open_pair
from engine.loading.planning import case_of, plan_pair
from engine.loading.rates import MeasuredHere, measure_draft, question_for
from engine.loading.ways import ways_for
from engine.model.device import choose_device
from engine.protocol.messages import Round
from engine.protocol.options import GenerateOptions, LoadOptions, Place, SamplingOptions, SpeculationOptions
from engine.weights.planning.ways import TreeYield, Way, Ways, fastest
from tests.bench.inflate import EMBEDDED, inflate
from tests.engine.tiny_models import tiny_model

DRAFT = EMBEDDED.parent / "demo-draft"
CONTEXT = 512
TOKENS, PLAIN_TOKENS = 48, 16
TEXTS = range(2)
PLACES: tuple[Place, ...] = ("device", "ssd")
MODELS = ("dense", "mixture")
PARTS = ("draft", "target", "other")


def ways_table(
    scratch: Path,
    model_bytes: int,
    device: str,
    weights: Sequence[str] = ("auto",),
    names: Sequence[str] = MODELS,
    places: Sequence[str] = PLACES,
) -> Iterator[dict[str, Any]]:
    """Predicted and real figures of every way, model, format and place."""
    made = {
        "dense": lambda: inflate(scratch / "dense", model_bytes),
        "mixture": lambda: random_mixture(scratch / "mixture"),
    }
    for name in names:
        folder = made[name]()
        for each in weights:
            for place in (place for place in PLACES if place in places):
                options = LoadOptions(
                    str(folder),
                    str(DRAFT),
                    device,
                    weights=each,
                    context_tokens=CONTEXT,
                    place=place,
                    cache_dir=str(scratch / f"cache-{name}-{each}-{place}"),
                )
                yield from ({"model": name, "weights": each, "place": place, **row} for row in _ways(options))


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
    """Loads the pair; rates are measured right before the answers that are compared.

    Everything twice: as computed from rates alone, and with what the pair's rounds have shown.
    """
    session = Session(options, quiet=True)
    try:
        for text in TEXTS:
            _answer(session, "auto", 0, TOKENS, text)
        computed, learned, measured = _predicted(options)
        for before, after in zip(computed, _as_asked(learned), strict=True):
            yield _compared(session, before, after, measured)
    finally:
        session.engine.close()


def _as_asked(ways: Ways) -> list[Way]:
    return [way for way in (ways.plain, ways.small, ways.tree) if way]


def _predicted(options: LoadOptions) -> tuple[list[Way], Ways, Measured]:
    """Without what rounds took, at the trees that are best with it; and with it."""
    pair, device = open_pair(options).identity, choose_device(options.device)
    cache = Path(options.cache_dir)
    arithmetic = find_arithmetic(pair, device, lambda: None)
    measured = benchmark_of(pair.target, options.weights, device, cache, arithmetic).measure(lambda: None)
    here = measure_draft(pair, MeasuredHere(device, measured), lambda: None, arithmetic)
    question = question_for(pair, here, arithmetic=arithmetic)
    found = plan_pair(pair.target, pair.draft, device, question)
    learned = ways_for(pair.target, pair.draft, device, question, found, cache, with_others=False)
    case = replace(case_of(pair.target, pair.draft, device, question), seen=None)

    def unlearned(way: Way) -> Way:
        draft = case.draft if way.nodes else None
        tree = TreeYield(way.nodes, way.tokens_per_pass, way.levels)
        return replace(fastest(replace(case, draft=draft), found, [tree]) or way, name=way.name)

    return [unlearned(way) for way in _as_asked(learned)], learned, measured


def _compared(session: Session, computed: Way, way: Way, measured: Measured) -> dict[str, Any]:
    method = "specexec" if way.nodes else "none"
    count = TOKENS if way.nodes else PLAIN_TOKENS
    answers = [_answer(session, method, way, count, text) for text in TEXTS]
    rounds = [each for answer in answers for each in answer]
    tokens_per_pass = statistics.fmean(each.new_tokens for each in rounds)
    seconds = statistics.median(each.seconds.decode for each in rounds)
    real = {
        "tokens_per_second": tokens_per_pass / seconds,
        "seconds": seconds,
        "tokens_per_pass": tokens_per_pass,
        "levels": statistics.fmean(_levels(each) for each in rounds),
        **{part: statistics.median(getattr(each.seconds, part) for each in rounds) for part in PARTS},
    }
    assert computed.forecast
    return {
        "way": way.name,
        "nodes": way.nodes,
        "bound": way.bound,
        "measured_at": measured.at,
        "real": real,
        "computed": _figures(computed, real),
        "learned": _figures(way, real),
        "computed_parts": asdict(computed.forecast),
    }


def _levels(event: Round) -> int:
    depths: list[int] = []
    for parent in array("i", event.tree.parents):
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    return max(depths)


def _figures(way: Way, real: Mapping[str, float]) -> dict[str, float]:
    assert way.forecast
    parts = {"draft": way.forecast.draft_seconds, "target": way.forecast.seconds_per_pass, "levels": way.levels}
    predicted = {
        "tokens_per_second": way.tokens_per_second,
        "seconds": way.seconds,
        "tokens_per_pass": way.tokens_per_pass,
        **parts,
    }
    return {
        **predicted,
        **{f"{name}_over_real": value / real[name] for name, value in predicted.items() if real[name]},
    }


def _answer(session: Session, method: str, way: Way | int, count: int, text: int) -> list[Round]:
    """Every round, the first, behind the prompt, left out."""
    budget, depth = (way.nodes, max(1, round(way.levels))) if isinstance(way, Way) and way.nodes else (0, 32)
    speculation = SpeculationOptions(method, budget, depth=depth, lookup=False)
    options = GenerateOptions(SamplingOptions(temperature=0.0), speculation, count, ignore_eos=True)
    prompt = session.engine.prompt(read_prompts(str(PROMPTS), len(TEXTS))[text])
    answers = [answer for _, answer in session.answer(prompt, options)]
    return answers[-1].rounds[1:]
