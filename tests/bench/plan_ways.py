"""Every way that `plan` tells of, as predicted and as it comes: one token per pass, a small tree, the best tree.

`python -m tests.bench.plan_accuracy --only ways` runs it, on the embedded pair widened by zeros and on a random
mixture, each in memory and streamed from SSD. A pair answers the same texts before, which teaches what its trees
give. The random mixture accepts next to nothing: there it is seconds that are compared.
"""

import statistics
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from engine.cli.bench import PROMPTS, read_prompts
from engine.cli.session import Session
from engine.loading.arithmetic import find_arithmetic
from engine.loading.pair import open_pair
from engine.loading.planning import plan_pair
from engine.loading.rates import Measured, benchmark_of, question_for
from engine.loading.ways import ways_for
from engine.model.device import choose_device
from engine.protocol.options import GenerateOptions, LoadOptions, Place, SamplingOptions, SpeculationOptions
from engine.weights.planning.ways import Way, Ways
from tests.bench.inflate import EMBEDDED, inflate
from tests.engine.tiny_models import tiny_model

DRAFT = EMBEDDED.parent / "demo-draft"
CONTEXT = 512
TOKENS, PLAIN_TOKENS = 48, 16
TEXTS = range(2)
PLACES: tuple[Place, ...] = ("device", "ssd")


def ways_table(scratch: Path, model_bytes: int, device: str) -> Iterator[dict[str, Any]]:
    """Predicted and real figures of every way, model and place."""
    models = {"dense": inflate(scratch / "dense", model_bytes), "mixture": random_mixture(scratch / "mixture")}
    for name, folder in models.items():
        for place in PLACES:
            options = LoadOptions(
                str(folder),
                str(DRAFT),
                device,
                context_tokens=CONTEXT,
                place=place,
                cache_dir=str(scratch / f"cache-{name}-{place}"),
            )
            yield from ({"model": name, "place": place, **row} for row in _ways(options))


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
    """Loads the pair; rates are measured right before the answers that are compared."""
    session = Session(options, quiet=True)
    try:
        for text in TEXTS:
            _answer(session, "auto", 0, TOKENS, text)
        predicted, measured = _predicted(options)
        for way in filter(None, (predicted.plain, predicted.small, predicted.tree)):
            yield _compared(session, way, measured)
    finally:
        session.engine.close()


def _predicted(options: LoadOptions) -> tuple[Ways, Measured]:
    pair, device = open_pair(options).identity, choose_device(options.device)
    cache = Path(options.cache_dir)
    arithmetic = find_arithmetic(pair, device, lambda: None)
    measured = benchmark_of(pair.target, options.weights, device, cache, arithmetic).measure(lambda: None)
    question = question_for(pair, measured, arithmetic=arithmetic)
    found = plan_pair(pair.target, pair.draft, device, question)
    return ways_for(pair.target, pair.draft, device, question, found, cache, with_others=False), measured


def _compared(session: Session, way: Way, measured: Measured) -> dict[str, Any]:
    method = "specexec" if way.nodes else "none"
    count = TOKENS if way.nodes else PLAIN_TOKENS
    answers = [_answer(session, method, way.nodes, count, text) for text in TEXTS]
    tokens_per_pass = statistics.fmean(tokens for rounds, _ in answers for tokens in rounds)
    seconds = statistics.median(each for _, rounds in answers for each in rounds)
    return {
        "way": way.name,
        "nodes": way.nodes,
        "bound": way.bound,
        "measured_at": measured.at,
        "predicted": {
            "tokens_per_second": way.tokens_per_second,
            "seconds": way.seconds,
            "tokens_per_pass": way.tokens_per_pass,
        },
        "real": {
            "tokens_per_second": tokens_per_pass / seconds,
            "seconds": seconds,
            "tokens_per_pass": tokens_per_pass,
        },
        "rate_over_real": way.tokens_per_second * seconds / tokens_per_pass,
        "seconds_over_real": way.seconds / seconds,
        "tokens_over_real": way.tokens_per_pass / tokens_per_pass,
    }


def _answer(session: Session, method: str, budget: int, count: int, text: int) -> tuple[list[int], list[float]]:
    """Tokens and seconds of every round, drafting included; the first, behind the prompt, left out."""
    options = GenerateOptions(
        SamplingOptions(temperature=0.0), SpeculationOptions(method, budget, lookup=False), count, ignore_eos=True
    )
    prompt = session.engine.prompt(read_prompts(str(PROMPTS), len(TEXTS))[text])
    ends: list[float] = []
    tokens: list[int] = []
    for _, answer in session.answer(prompt, options):
        if len(answer.rounds) > len(tokens):
            ends.append(time.perf_counter())
            tokens.append(answer.rounds[-1].new_tokens)
    return tokens[1:], [after - before for before, after in pairwise(ends)]
