"""Tokens per pass with calibrated draft scores and without, for the shipped draft and for two that misjudge themselves.

python -m tests.bench.calibration [--budgets 16,64,256] [--prompt-count 16] [--max-new-tokens 128] [--json]

A draft whose last norm is halved says the same order of tokens with half the conviction; one whose norm is doubled with
twice. Prompt lookup is off. Every draft starts cold, and learns from prompt to prompt.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from engine.cli.bench import PROMPTS, read_prompts
from engine.cli.progress import say
from engine.cli.session import Session
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from tests.bench.inflate import EMBEDDED

DRAFT = EMBEDDED.parent / "demo-draft"
CONVICTIONS = {"as shipped": 1.0, "half as sure": 0.5, "twice as sure": 2.0}
SAMPLINGS = {"greedy": SamplingOptions(), "T=.6": SamplingOptions(temperature=0.6, top_p=0.9)}


def main() -> None:
    """Measure, and print a line per draft, temperature and budget, or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", default="16,64,256")
    parser.add_argument("--prompt-count", type=int, default=16)
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for name, conviction in CONVICTIONS.items():
        with tempfile.TemporaryDirectory() as scratch:
            draft = convinced(Path(scratch) / "draft", conviction)
            for sampling, drawn in SAMPLINGS.items():
                for budget in map(int, arguments.budgets.split(",")):
                    rows.append({"draft": name, "sampling": sampling, "budget": budget})
                    for calibrate in (False, True):  # an engine of its own each: nothing is known at the start
                        cache = Path(scratch) / f"{sampling}-{budget}-{calibrate}"
                        session = Session(LoadOptions(draft=str(draft), cache_dir=str(cache)), quiet=True)
                        options = SpeculationOptions("specexec", budget, calibrate=calibrate, lookup=False)
                        answer = GenerateOptions(drawn, options, arguments.max_new_tokens)
                        rows[-1]["calibrated" if calibrate else "plain"] = _tokens_per_pass(
                            session, answer, arguments.prompt_count
                        )
                    say(_line(rows[-1]))
    sys.stdout.write(json.dumps({"rows": rows}) + "\n" if arguments.json else "\n".join(map(_line, rows)) + "\n")


def convinced(folder: Path, conviction: float) -> Path:
    """The embedded draft with its logits so many times as large."""
    shutil.copytree(DRAFT, folder)
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"] = weights["model.norm.weight"] * conviction
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def _tokens_per_pass(session: Session, options: GenerateOptions, prompt_count: int) -> float:
    tokens = passes = 0
    for chat in read_prompts(str(PROMPTS), prompt_count):
        statistics = session.collect(session.engine.prompt(chat), options).statistics
        tokens, passes = tokens + statistics.new_tokens, passes + statistics.passes
    return tokens / passes


def _line(row: dict[str, Any]) -> str:
    gain = row["calibrated"] / row["plain"] - 1
    who = f"{row['draft']:<14}{row['sampling']:<8}{row['budget']:>5}"
    return f"{who}  plain {row['plain']:6.2f}  calibrated {row['calibrated']:6.2f}  {gain:+.1%}"


if __name__ == "__main__":
    main()
