"""`auto` against every fixed method and budget, resident, streamed from SSD, and streamed at half the disk's rate.

python -m tests.bench.auto_budget --folder DIR-ON-A-REAL-DISK [--gigabytes 0.3] [--rate 1.0]
    [--placements resident,ssd,half] [--budgets 8,32,128] [--methods specexec] [--prompt-count 16] [--seeds 3]
    [--max-new-tokens 128] [--temperatures 0,0.6] [--json]

The streamed model is the embedded target widened by zeros, see `tests.bench.inflate`. A virtual disk changes its mind
from second to second, by more than the contenders differ: so every read of a layer takes as long as it would at
`--rate` GB/s, which the disk should be able to keep up (`late` tells how many reads did not), and at half of that for
`half`. `auto` starts cold in every placement and temperature, with an empty cache folder: the answers in which its
first 20 rounds fall are left out for everybody, and told apart as `while_learning`. All contenders answer in turn, in
an order that goes round, so that a noisy minute hits all alike; `none` is timed over the first `--reference-tokens`.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from statistics import median_low
from typing import Any

from engine.cli.bench import PROMPTS, read_prompts
from engine.cli.progress import say
from engine.cli.session import Session
from engine.protocol.messages import Round
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.text.prompt import Prompt
from tests.bench.folders import made_folder
from tests.bench.inflate import EMBEDDED, inflate
from tests.bench.steady_disk import steady_disk

DRAFT = EMBEDDED.parent / "demo-draft"
LEARNING_ROUNDS = 20


@dataclass
class Tally:
    """Rounds of one contender, prompt by prompt."""

    answers: list[list[Round]] = field(default_factory=list)
    note: str = ""

    def rate(self, begin: int = 0, end: int | None = None) -> float:
        """Tokens per second of decoding, in these answers."""
        rounds = [event for answer in self.answers[begin:end] for event in answer]
        return sum(event.new_tokens for event in rounds) / max(sum(event.seconds.decode for event in rounds), 1e-9)

    def learning(self) -> int:
        """How many answers hold the rounds in which there was still much to learn."""
        totals = accumulate(len(answer) for answer in self.answers)
        return next((number for number, total in enumerate(totals, start=1) if total >= LEARNING_ROUNDS), 0)


def main() -> None:
    """Measure, and print a line per contender or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--placements", default="resident,ssd,half")
    parser.add_argument("--gigabytes", type=float, default=0.3, help="bytes of the streamed decoder layers")
    parser.add_argument("--rate", type=float, default=1.0, help="GB/s of the disk; half of it for the placement `half`")
    parser.add_argument("--budgets", default="8,32,128")
    parser.add_argument("--methods", default="specexec")
    parser.add_argument("--temperatures", default="0,0.6")
    parser.add_argument("--prompt-count", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=3, help="how often each prompt is answered")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--reference-tokens", type=int, default=8)
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no more prompts after so long, each time"
    )
    parser.add_argument("--folder", type=made_folder, default=None, help="where the model is made, or lies already")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        for placement in arguments.placements.split(","):
            rows += _placement(placement, arguments, Path(scratch))
    sys.stdout.write(json.dumps({"rows": rows}) + "\n" if arguments.json else "".join(map(_line, rows)))


def _placement(placement: str, arguments: argparse.Namespace, scratch: Path) -> list[dict[str, Any]]:
    options = LoadOptions(draft=str(DRAFT))
    if placement != "resident":
        model = (arguments.folder or scratch) / "auto-budget-model"
        if not (model / "config.json").exists():
            model = inflate(scratch / "model", int(arguments.gigabytes * 1e9))
        options = LoadOptions(target=str(model), draft=str(DRAFT), weights="bfloat16", place="ssd")
    rows = []
    for number, temperature in enumerate(map(float, arguments.temperatures.split(","))):
        cold = replace(options, cache_dir=str(scratch / f"{placement}-{number}"))
        session = Session(cold, quiet=True)
        try:
            rate = arguments.rate * 1e9 / (2 if placement == "half" else 1)
            with steady_disk(rate) as late:
                compared = _compare(session, placement, temperature, arguments)
            rows += [{**row, "late": sum(late) / max(len(late), 1)} for row in compared]
        finally:
            session.engine.close()
    return rows


def _compare(
    session: Session, placement: str, temperature: float, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """All contenders on the same loaded model."""
    fixed = [
        (method, int(budget)) for method in arguments.methods.split(",") for budget in arguments.budgets.split(",")
    ]
    tallies: dict[tuple[str, int], Tally] = {who: Tally() for who in [("auto", 0), ("none", 0), *fixed]}
    chats = read_prompts(str(PROMPTS), arguments.prompt_count)
    answers = [(seed, chat) for seed in range(arguments.seeds) for chat in chats]
    turns = deque(tallies.items())
    begin = time.perf_counter()
    for number, (seed, chat) in enumerate(answers, start=1):
        if time.perf_counter() - begin > arguments.seconds:
            break
        sampling = SamplingOptions(temperature=temperature, top_p=0.9 if temperature else 1.0, seed=seed)
        prompt = session.engine.prompt(chat)
        for (method, budget), tally in turns:
            count = arguments.reference_tokens if method == "none" else arguments.max_new_tokens
            _answer(session, prompt, GenerateOptions(sampling, SpeculationOptions(method, budget), count), tally)
        turns.rotate()
        say(f"{placement}, T = {temperature:g}: answer {number} of {len(answers)}")
    auto = tallies.pop(("auto", 0))
    learnt = auto.learning()
    rates = {who: tally.rate(learnt) for who, tally in tallies.items()}
    best = max(rates, key=lambda who: rates[who])
    row = {"placement": placement, "temperature": temperature}
    chosen: dict[str, list[int]] = {}
    for answer in auto.answers[learnt:]:
        for event in answer:
            chosen.setdefault(event.method, []).append(event.budget)
    return [
        {**row, "method": who[0], "budget": who[1], "tokens_per_second": rate, "is_best": who == best}
        for who, rate in rates.items()
    ] + [
        {
            **row, "method": "auto", "budget": 0, "tokens_per_second": auto.rate(learnt),
            "over_best": auto.rate(learnt) / max(rates[best], 1e-9), "rounds": sum(map(len, auto.answers[learnt:])),
            "while_learning": auto.rate(0, learnt) / max(tallies[best].rate(0, learnt), 1e-9),
            "chosen": chosen, "note": auto.note,
        }
    ]  # fmt: skip


def _answer(session: Session, prompt: Prompt, options: GenerateOptions, tally: Tally) -> None:
    written = session.collect(prompt, options)
    tally.answers.append(written.rounds)
    tally.note = written.statistics.note


def _line(row: dict[str, Any]) -> str:
    who = f"{row['method']} {row['budget'] or ''}"
    line = f"{row['placement']:<10}{row['temperature']:>5g}  {who:<14}{row['tokens_per_second']:>9.2f} tokens/s"
    if row["method"] == "auto":
        chosen = ", ".join(
            f"{name} in {len(sizes)} rounds, median {median_low(sizes)} nodes ({min(sizes)} to {max(sizes)})"
            for name, sizes in row["chosen"].items()
        )
        line += f"  {row['over_best']:.2f} of the best fixed over {row['rounds']} rounds"
        line += f", {row['while_learning']:.2f} while learning. {chosen}. {row['note']}"
        line += f" Late reads: {row['late']:.1%}." if row["late"] else ""
    return line + ("  best\n" if row.get("is_best") else "\n")


if __name__ == "__main__":
    main()
