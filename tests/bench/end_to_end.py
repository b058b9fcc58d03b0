"""Chat with a model on SSD: SpecExec, plain autoregression under the same placement, and accelerate with transformers.

python -m tests.bench.end_to_end [--gigabytes 1.5] [--prompt-count 4] [--max-new-tokens 96] [--budgets auto,64,128]
    [--methods all] [--temperatures 0,0.6] [--calibrate] [--reference-tokens 16] [--folder DIR] [--json]

The model is the embedded target with its MLPs widened by zeros until its layers take so many gigabytes, so it writes
the same text; that its logits are the same is checked before anything is measured. Who writes one token per pass is
timed over fewer tokens, `--reference-tokens` of every prompt: its passes are all alike. What is measured and learnt on
the way is kept beside the model, and gone with it.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from engine.cli.arguments import build_parser
from engine.cli.bench import PROMPTS, as_text, read_prompts, rows
from engine.cli.calibrate import calibrate
from engine.cli.contenders import Contender, Run, contenders
from engine.cli.model_options import load_options
from engine.cli.progress import say
from engine.cli.session import Session
from engine.model.checkpoint import open_checkpoint
from tests.bench.folders import made_folder
from tests.bench.inflate import EMBEDDED, inflate
from tests.engine.resident import load_resident

DRAFT = EMBEDDED.parent / "demo-draft"
ONE_TOKEN_A_PASS = ("none", "accelerate")


def main() -> None:
    """Measure, and print a table or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.5, help="bytes of the decoder layers")
    parser.add_argument("--prompt-count", type=int, default=4)
    parser.add_argument("--max-new-tokens", type=int, default=96)
    parser.add_argument("--reference-tokens", type=int, default=16, help="tokens per prompt for the slow contenders")
    parser.add_argument("--budgets", default="auto,64,128")
    parser.add_argument("--methods", default="specexec")
    parser.add_argument("--baselines", default="accelerate")
    parser.add_argument("--temperatures", default="0,0.6")
    parser.add_argument("--calibrate", action="store_true", help="measure first how the pair accepts, for Sequoia")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no more prompts after so long")
    parser.add_argument("--folder", type=made_folder, default=None, help="where the model is made (a real disk)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        model = inflate(Path(scratch) / "model", int(arguments.gigabytes * 1e9))
        difference = logit_difference(model)
        assert difference < 1e-3, "the inflated model is another model"
        found = {"largest_logit_difference": difference, **compare(model, arguments)}
    sys.stdout.write(json.dumps(found) + "\n" if arguments.json else as_text(found))


def logit_difference(model: Path) -> float:
    """The largest difference of the two models' logits over some text, in float32."""
    ids = torch.arange(100, 164)[None]
    logits = []
    for folder in (EMBEDDED, model):
        network = load_resident(open_checkpoint(str(folder)), torch.float32, torch.device("cpu"))
        with torch.inference_mode():
            logits.append(network.model(ids).logits)
    return float((logits[0] - logits[1]).abs().max())


def compare(model: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """A row per contender and temperature, all on the same loaded model, prompt by prompt in turn."""
    pair = ["--target", str(model), "--draft", str(DRAFT), "--place", "ssd", "--top-p", "0.9"]
    who = ["--methods", arguments.methods, "--budgets", arguments.budgets, "--baselines", arguments.baselines]
    options = build_parser().parse_args(["bench", *pair, *who, "--temperatures", arguments.temperatures])
    options.max_new_tokens = arguments.max_new_tokens
    session = Session(replace(load_options(options), cache_dir=str(model.parent / "cache")), quiet=arguments.json)
    prompts = [session.engine.prompt(chat) for chat in read_prompts(str(PROMPTS), arguments.prompt_count)]
    found = {"calibration": calibrate(options, session, prompts)} if arguments.calibrate else {}
    runs: dict[Contender, list[Run]] = {contender: [] for contender in contenders(options, session)}
    begin = time.perf_counter()
    for number, prompt in enumerate(prompts, start=1):
        if time.perf_counter() - begin > arguments.seconds:
            break
        for contender, done in runs.items():
            is_slow = contender.method in ONE_TOKEN_A_PASS
            done.append(contender.answer(prompt, arguments.reference_tokens if is_slow else arguments.max_new_tokens))
        say(f"prompt {number} of {arguments.prompt_count} done")
    done_prompts = len(next(iter(runs.values())))
    session.engine.close()
    return {"settings": {"prompt_count": done_prompts}, "rows": _against_accelerate(rows(runs)), **found}


def _against_accelerate(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How many times the tokens per second of accelerate, at the same temperature."""
    rates = {row["temperature"]: row["tokens_per_second"] for row in table if row["method"] == "accelerate"}
    for row in table:
        if row["temperature"] in rates:
            row["over_accelerate"] = row["tokens_per_second"] / rates[row["temperature"]]
    return table


if __name__ == "__main__":
    main()
