"""Chat with a model on SSD: SpecExec, plain autoregression under the same placement, and accelerate with transformers.

python -m tests.bench.end_to_end [--gigabytes 1.5] [--prompt-count 1] [--max-new-tokens 64] [--folder DIR] [--json]

The model is the embedded target with its MLPs widened by zeros until its layers take so many gigabytes, so it writes
the same text; that its logits are the same is checked before anything is measured.
"""

import argparse
import io
import json
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from engine.__main__ import main as coppice_engine
from engine.model.checkpoint import open_checkpoint
from engine.model.resident import load_resident
from tests.bench.inflate import EMBEDDED, inflate

DRAFT = EMBEDDED.parent / "demo-draft"
SAMPLINGS = {"greedy": [], "T=.6, top-p .9": ["--temperature", "0.6", "--top-p", "0.9"]}


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.5, help="bytes of the decoder layers")
    parser.add_argument("--prompt-count", type=int, default=1)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--budgets", default="64")
    parser.add_argument("--accelerate-tokens", type=int, default=6, help="tokens per prompt for the slow baseline")
    parser.add_argument("--folder", type=Path, default=None, help="where the model is made (a real disk)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        model = inflate(Path(scratch) / "model", int(arguments.gigabytes * 1e9))
        found: dict[str, Any] = {"largest_logit_difference": logit_difference(model)}
        assert found["largest_logit_difference"] < 1e-3, "the inflated model is another model"
        for name, sampling in SAMPLINGS.items():
            found[name] = _compare(model, arguments, sampling)
    json.dump(found, sys.stdout, indent=None if arguments.json else 2)
    sys.stdout.write("\n")


def logit_difference(model: Path) -> float:
    """The largest difference of the two models' logits over some text, in float32."""
    ids = torch.arange(100, 164)[None]
    logits = []
    for folder in (EMBEDDED, model):
        network = load_resident(open_checkpoint(str(folder)), torch.float32, torch.device("cpu"))
        with torch.inference_mode():
            logits.append(network.model(ids).logits)
    return float((logits[0] - logits[1]).abs().max())


def _compare(model: Path, arguments: argparse.Namespace, sampling: list[str]) -> list[dict[str, Any]]:
    """One row per contender; the two of ours side by side, then accelerate, over fewer tokens of the same prompts."""
    pair = ["--target", str(model), "--draft", str(DRAFT), "--weights", "bfloat16", "--place", "ssd", *sampling]
    prompts = ["--prompt-count", str(arguments.prompt_count)]
    ours = ["--baselines", "", "--budgets", arguments.budgets, "--max-new-tokens", str(arguments.max_new_tokens)]
    rows = _bench([*pair, *prompts, *ours])
    slow = ["--methods", "none", "--baselines", "accelerate", "--max-new-tokens", str(arguments.accelerate_tokens)]
    accelerate = _bench([*pair, *prompts, *slow])[-1]
    for row in rows:
        row["over_accelerate"] = row["tokens_per_second"] / accelerate["tokens_per_second"]
    return [*rows, accelerate]


def _bench(options: list[str]) -> list[dict[str, Any]]:
    output = io.StringIO()
    with redirect_stdout(output):
        code = coppice_engine(["bench", *options, "--json"])
    if code:
        raise SystemExit(code)
    rows: list[dict[str, Any]] = json.loads(output.getvalue())["rows"]
    return rows


if __name__ == "__main__":
    main()
