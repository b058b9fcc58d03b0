"""Tokens per pass of the trained test models beside the embedded pair's: the hybrid pair, its heads, and the mixture.

python -m tests.bench.hybrid_pair [--budgets 16,64,256] [--prompt-count 8] [--max-new-tokens 96]
    [--contenders embedded,hybrid,heads,both,mixture] [--weights DIR] [--json]

Both pairs have the same sizes, tokenizer and training text; in the hybrid one three of four layers are Gated DeltaNet.
*mixture*: the trained mixture of experts with the embedded draft.
Easy: chats of the kind they were trained for. Hard: old fairy tales, to be continued. Greedy and at T = .6 with top-p
.9, specexec in float32, no prompt lookup. `same_text`: answers that are those of no draft at all.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.cli.bench import PROMPTS, read_prompts
from engine.cli.progress import say
from engine.cli.session import CollectedAnswer, Session
from engine.protocol.options import (
    OWN_HEADS,
    WITH_HEADS,
    GenerateOptions,
    LoadOptions,
    SamplingOptions,
    SpeculationOptions,
)
from engine.text.prompt import Prompt
from tests.hybrid_pair.corpus import EMBEDDED
from tests.hybrid_pair.folders import WEIGHTS, assemble
from tests.mixture_pair.folders import assemble as assemble_mixture

BOOKS = Path(__file__).parents[2] / "packaging" / "demo_models" / "raw"
HARD_WORDS = 40  # of every book, from its middle
SAMPLINGS = {"greedy": SamplingOptions(), "T=.6": SamplingOptions(temperature=0.6, top_p=0.9, seed=7)}


@dataclass(frozen=True)
class Contender:
    """A target and what drafts for it."""

    name: str
    target: str
    draft: str


def main() -> None:
    """Measure, and print a line per contender, kind of text, sampling and budget, or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", default="16,64,256")
    parser.add_argument("--prompt-count", type=int, default=8)
    parser.add_argument("--max-new-tokens", type=int, default=96)
    parser.add_argument("--contenders", default="embedded,hybrid,heads,both,mixture")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="what tests.hybrid_pair.build has left")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        hybrid = {name: str(path) for name, path in assemble(Path(scratch), arguments.weights).items()}
        mixture = str(assemble_mixture(Path(scratch) / "mixture"))
        chosen = [known for known in contenders(hybrid, mixture) if known.name in arguments.contenders.split(",")]
        rows = [row for contender in chosen for row in measured(contender, Path(scratch), arguments)]
    sys.stdout.write(json.dumps({"rows": rows}) + "\n" if arguments.json else "\n".join(map(_line, rows)) + "\n")


def contenders(hybrid: dict[str, str], mixture: str) -> list[Contender]:
    """The embedded pair, the hybrid pair, the hybrid target with its own heads, alone and merged, and the mixture."""
    return [
        Contender("embedded", LoadOptions().target, "auto"),
        Contender("hybrid", hybrid["target"], hybrid["draft"]),
        Contender("heads", hybrid["target"], OWN_HEADS),
        Contender("both", hybrid["target"], hybrid["draft"] + WITH_HEADS),
        Contender("mixture", mixture, str(EMBEDDED["draft"])),
    ]


def hard_texts() -> list[str]:
    """The same number of words from the middle of every book of fairy tales."""
    texts = []
    for book in sorted(BOOKS.glob("*.txt")):
        words = re.sub(r"\s+", " ", book.read_text(encoding="utf-8")).split(" ")
        texts.append(" ".join(words[len(words) // 2 :][:HARD_WORDS]))
    return texts


def measured(contender: Contender, folder: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """A row per kind of text, sampling and budget; one engine for all."""
    cache = str(folder / contender.name)
    session = Session(LoadOptions(contender.target, contender.draft, weights="float32", cache_dir=cache), quiet=True)
    chats = read_prompts(str(PROMPTS), arguments.prompt_count)
    texts = {
        "easy": [session.engine.prompt(chat) for chat in chats],
        "hard": [session.engine.raw_prompt(text) for text in hard_texts()],
    }
    rows = []
    for kind, prompts in texts.items():
        for sampling, drawn in SAMPLINGS.items():
            options = GenerateOptions(drawn, SpeculationOptions("none"), arguments.max_new_tokens)
            plain = _answers(session, prompts, options)
            for budget in map(int, arguments.budgets.split(",")):
                trees = replace(options, speculation=SpeculationOptions("specexec", budget, lookup=False))
                named = {"contender": contender.name, "text": kind, "sampling": sampling, "budget": budget}
                rows.append(named | _figures(_answers(session, prompts, trees), plain))
                say(_line(rows[-1]))
    session.engine.close()
    return rows


def _answers(session: Session, prompts: Sequence[Prompt], options: GenerateOptions) -> list[CollectedAnswer]:
    return [session.collect(prompt, options) for prompt in prompts]


def _figures(answers: Sequence[CollectedAnswer], plain: Sequence[CollectedAnswer]) -> dict[str, Any]:
    tokens = sum(answer.statistics.new_tokens for answer in answers)
    passes = sum(answer.statistics.passes for answer in answers)
    same = sum(answer.token_ids == text.token_ids for answer, text in zip(answers, plain, strict=True))
    return {"tokens_per_pass": tokens / passes, "tokens": tokens, "same_text": same, "answers": len(answers)}


def _line(row: dict[str, Any]) -> str:
    who = f"{row['contender']:<10}{row['text']:<6}{row['sampling']:<8}{row['budget']:>4}"
    counted = f"{row['tokens_per_pass']:6.2f} tokens/pass of {row['tokens']}"
    return f"{who}  {counted}, same text {row['same_text']} of {row['answers']}"


if __name__ == "__main__":
    main()
