"""Whether texts are the same with and without trees, by number type, and how far apart the tokens are where not.

python -m tests.bench.agreement [--prompt-count 8] [--max-new-tokens 96] [--weights float32,bfloat16] [--json]

In 16 bit what a pass computes depends on its number of rows, so a tree may turn a near tie. The embedded pair answers
the prompts without trees and with them, greedy and at T = .6 with the same seed. Greedy texts are read again by the
target (teacher forcing) a row at a time and all at once: the largest difference of a logit is the rounding d.
A token that a tree's text emits is within rounding if its logit is at most 2 d below the largest one.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from engine.cli.bench import PROMPTS, read_prompts
from engine.cli.progress import say
from engine.cli.session import Session
from engine.model.context import Context
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.text.prompt import Prompt

CONTENDERS = (("specexec", 16), ("specexec", 64), ("auto", 0))
TEMPERATURES = (0.0, 0.6)


@torch.inference_mode()
def read_again(context: Context, prompt: Sequence[int], answer: Sequence[int]) -> tuple[Tensor, float]:
    """The logits before every token of the answer, float32 [tokens, vocabulary], a row a pass, and the rounding."""
    text = [prompt[-1], *answer[:-1]]
    context.prefill(prompt[:-1])
    together = context.score(text, range(-1, len(text) - 1)).float()
    context.keep([])
    alone = []
    for token in text:
        alone.append(context.score([token], [-1])[0].float())
        context.keep([0])
    return torch.stack(alone), float((torch.stack(alone) - together).abs().max())


def compared(answers: Sequence[Sequence[int]], plain: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Texts that are the same, and tokens up to the first difference of the others."""
    same = [list(a) == list(b) for a, b in zip(answers, plain, strict=True)]
    parted = [
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
        for a, b, is_same in zip(answers, plain, same, strict=True)
        if not is_same
    ]
    return {"same": sum(same), "texts": len(same), "first_difference": mean(parted) if parted else None}


def forced(context: Context, prompts: Sequence[Prompt], answers: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Tokens that are the argmax, and those within the rounding of it, when the target reads the texts again."""
    exact = within = tokens = 0
    rounding = 0.0
    for prompt, answer in zip(prompts, answers, strict=True):
        logits, off = read_again(context, prompt.tokens, answer)
        rounding = max(rounding, off)
        below = logits.amax(-1) - logits.gather(1, torch.tensor(answer, device=logits.device)[:, None])[:, 0]
        exact, within = exact + int((below == 0).sum()), within + int((below <= 2 * off).sum())
        tokens += len(answer)
    return {"argmax": exact / tokens, "within_rounding": within / tokens, "rounding": rounding}


def measured(weights: str, arguments: argparse.Namespace, cache: str) -> list[dict[str, Any]]:
    """The rows of one number type."""
    session = Session(LoadOptions(weights=weights, cache_dir=cache), quiet=True)
    prompts = [session.engine.prompt(chat) for chat in read_prompts(str(PROMPTS), arguments.prompt_count)]
    rows = []
    for temperature in TEMPERATURES:
        options = GenerateOptions(
            SamplingOptions(temperature, seed=7), SpeculationOptions("none"), arguments.max_new_tokens
        )
        plain = [session.collect(prompt, options).token_ids for prompt in prompts]
        for method, budget in CONTENDERS:
            trees = replace(options, speculation=SpeculationOptions(method, budget))
            answers = [session.collect(prompt, trees).token_ids for prompt in prompts]
            row = {"weights": weights, "temperature": temperature, "method": method, "budget": budget or None}
            row |= compared(answers, plain)
            row |= forced(session.engine.target, prompts, answers) if not temperature else {}
            rows.append(row)
            say(json.dumps(row))
    session.engine.close()
    return rows


def main() -> None:
    """Measure, and print a line per number type, temperature and method, or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompt-count", type=int, default=8)
    parser.add_argument("--max-new-tokens", type=int, default=96)
    parser.add_argument("--weights", default="float32,bfloat16")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        rows = [row for weights in arguments.weights.split(",") for row in measured(weights, arguments, cache)]
    sys.stdout.write(json.dumps({"rows": rows}) + "\n" if arguments.json else "".join(map(_line, rows)))


def _line(row: dict[str, Any]) -> str:
    name = f"{row['method']} {row['budget'] or ''}".strip()
    apart = f"first difference at {row['first_difference']:.0f}" if row["first_difference"] is not None else ""
    told = f"argmax {row['argmax']:.4f}, within {row['within_rounding']:.4f}" if "argmax" in row else ""
    begin = f"{row['weights']:<10}T={row['temperature']:<5g}{name:<13}{row['same']:>3} of {row['texts']}"
    return f"{begin}  {apart:<26}{told}\n"


if __name__ == "__main__":
    main()
