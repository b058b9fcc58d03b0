"""Tokens per pass with the embedded draft, and with the same one under other ids and without a third of its merges.

python -m tests.bench.other_vocabulary [--budgets 16,64] [--methods specexec,...] [--prompt-count 8]
    [--max-new-tokens 96] [--temperature 0] [--json]

Both derived drafts have another tokenizer than the target: what they propose is translated. `same_text`: answers that
are those of no draft at all; with sampling that holds for specexec alone. Prompt lookup is off, all starts are cold.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from engine.cli.bench import PROMPTS, read_prompts
from engine.cli.progress import say
from engine.cli.session import CollectedAnswer, Session
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from tests.engine.other_drafts import permuted, reduced

METHODS = "specexec,sequoia,specinfer,chain"


def main() -> None:
    """Measure, and print a line per draft, method and budget, or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", default="16,64")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--prompt-count", type=int, default=8)
    parser.add_argument("--max-new-tokens", type=int, default=96)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        drafts = {"original": "auto", "permuted": str(permuted(base / "p")), "reduced": str(reduced(base / "r"))}
        plain = [answer.token_ids for answer in _answers(drafts["original"], "none", 0, base / "none", arguments)]
        rows = [
            _row((name, *way), _answers(source, *way, base / f"{name}-{way}", arguments), plain)
            for name, source in drafts.items()
            for way in product(arguments.methods.split(","), map(int, arguments.budgets.split(",")))
        ]
    sys.stdout.write(json.dumps({"rows": rows}) + "\n" if arguments.json else "\n".join(map(_line, rows)) + "\n")


def _answers(
    draft: str, method: str, budget: int, cache: Path, arguments: argparse.Namespace
) -> Sequence[CollectedAnswer]:
    """To every prompt in turn; in float32, where texts can be compared."""
    session = Session(LoadOptions(draft=draft, weights="float32", cache_dir=str(cache)), quiet=True)
    sampling = SamplingOptions(temperature=arguments.temperature, top_p=0.9 if arguments.temperature else 1.0)
    speculation = SpeculationOptions(method, budget, lookup=False)
    options = GenerateOptions(sampling, speculation, arguments.max_new_tokens)
    prompts = read_prompts(str(PROMPTS), arguments.prompt_count)
    found = [session.collect(session.engine.prompt(chat), options) for chat in prompts]
    session.engine.close()
    return found


def _row(
    contender: tuple[str, str, int], answers: Sequence[CollectedAnswer], plain: Sequence[Sequence[int]]
) -> dict[str, Any]:
    passes = sum(answer.statistics.passes for answer in answers)
    tokens = sum(answer.statistics.new_tokens for answer in answers)
    same = sum(answer.token_ids == text for answer, text in zip(answers, plain, strict=True))
    named = dict(zip(("draft", "method", "budget"), contender, strict=True))
    row = named | {"tokens_per_pass": tokens / passes, "passes": passes, "answers": len(answers), "same_text": same}
    say(_line(row))
    return row


def _line(row: dict[str, Any]) -> str:
    who = f"{row['draft']:<10}{row['method']:<10}{row['budget']:>4}"
    return f"{who}  {row['tokens_per_pass']:6.2f} tokens/pass  same text {row['same_text']} of {row['answers']}"


if __name__ == "__main__":
    main()
