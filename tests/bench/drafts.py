"""Drafts whose weights stay packed on a processor: seconds of a pass over few rows, and memory, beside decoded ones.

python -m tests.bench.drafts [--gigabytes 1.6] [--kinds Q4_K,Q4_0,Q8_0,Q6_K] [--rows 1,4,8,16,32] [--turns 9]
    [--threads 2] [--weights auto] [--pair GIGABYTES] [--budgets 16,64] [--folder DIR] [--files DIR]

The draft is the embedded target, grown to so many bytes in bfloat16 in the proportions of a Llama of 1B, in blocks of
each type of GGUF files. It is loaded three times, all weights decoded, packed, and packed with rows that are rounded to
8 bits where there are loops for that, and the three pass over the same rows in turns. Seconds are medians; memory is
what the process grew by. What the machine measures for the plan, and what follows from it, stands below each table.

With --pair, the file drafts for a target of so many bytes in bfloat16, in the same blocks, instead: the same prompts
are answered greedily and in turns, with the draft decoded and as it is planned, in trees of each of the budgets.

Where `--files` names a folder, files are opened there as by `tests.bench.peers`, and written first if they are missing.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import psutil
import torch

from engine.cli.bench import PROMPTS, read_prompts
from engine.cli.session import Session
from engine.errors import Cancellation
from engine.idle_threads import let_idle_threads_sleep
from engine.loading.loading import LoadedDraft, load_draft
from engine.loading.measurements.arithmetic import find_arithmetic
from engine.loading.measurements.benchmark import draft_benchmark
from engine.loading.pair import PairIdentity
from engine.loading.planning import plan_pair
from engine.loading.preparation import draft_rounds
from engine.loading.rates import question_for
from engine.loading.store import compiled_folder
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.products.compiling import keep_compiled_in
from engine.protocol.messages import Statistics
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.text.prompt import Prompt
from engine.text.tokenizer import Tokenizer
from engine.weights.planning.computing import levels_gain_stored
from engine.weights.planning.machine import Rates
from tests.bench.folders import made_folder
from tests.bench.inflate import EMBEDDED
from tests.bench.peer_files import Files

CPU = torch.device("cpu")
BEHIND, SLOTS = 64, 512  # tokens of a text that each pass is behind, and of the cache
WARM_UPS = 2
ANSWER_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Contender:
    """The draft, held in one way."""

    name: str
    draft: LoadedDraft
    context: Context
    grown_bytes: int


def main() -> None:
    """Measure, and print a table for each type of blocks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.6, help="bytes of the decoder layers in bfloat16")
    parser.add_argument("--kinds", default="Q4_K,Q4_0,Q8_0,Q6_K")
    parser.add_argument("--rows", default="1,4,8,16,32")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--weights", default="auto", help="the number type that is computed in")
    parser.add_argument("--pair", type=float, default=0.0, help="bytes of a target's layers in bfloat16")
    parser.add_argument("--budgets", default="16,64", help="nodes of its trees")
    parser.add_argument("--folder", type=made_folder, default=None, help="where models are made (a real disk)")
    parser.add_argument("--files", type=Path, default=None, help="where models lie, or are left for the next run")
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    if len(kinds) > 1:  # each in a process of its own, whose memory nothing has grown before
        for kind in kinds:
            subprocess.run([sys.executable, "-m", "tests.bench.drafts", *sys.argv[1:], "--kinds", kind], check=True)
        return
    torch.set_num_threads(arguments.threads)
    rows = [int(each) for each in arguments.rows.split(",")]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as made:
        files = Files(arguments.files or Path(made), "grown", arguments.gigabytes)
        options = LoadOptions(target="", draft="", device="cpu", weights=arguments.weights, cache_dir=made)
        if not arguments.pair:
            compare(kinds[0], files.target(kinds[0]), options, rows, arguments.turns)
            return
        large = Files(files.folder / "large", "grown", arguments.pair)
        options = replace(options, target=str(large.target(kinds[0])), draft=str(files.target(kinds[0])))
        compare_answers(kinds[0], options, [int(each) for each in arguments.budgets.split(",")], arguments.turns)


def compare(kind: str, path: Path, options: LoadOptions, rows: Sequence[int], turns: int) -> None:
    """Print the table of one file."""
    draft = open_checkpoint(str(path), role="draft")
    pair = PairIdentity(draft, draft, replace(options, target=str(path), draft=str(path)))
    keep_compiled_in(compiled_folder(pair.options))
    arithmetic = find_arithmetic(pair, CPU, lambda: None)
    bench = draft_benchmark(pair, CPU, arithmetic)
    assert bench is not None
    plan = plan_pair(draft, None, CPU, question_for(pair, arithmetic=arithmetic))
    can_round = draft_rounds(pair.options, draft, CPU, arithmetic)
    measured: dict[bool, Rates] = {}
    contenders = []
    for name, stays, rounds in (("decoded", False, False), ("packed", True, False), ("in 8 bits", True, True)):
        if rounds and not can_round:
            continue
        if stays:
            measured[rounds] = replace(bench, is_rounded=rounds).measure(lambda: None).rates
        found = replace(plan, draft_rows=measured[rounds].few_rows if stays else 0, draft_is_rounded=rounds)
        before = _own_bytes()
        held = _last(load_draft(0, draft, found, pair.options, CPU, Cancellation()))
        context = Context(held.network, SLOTS, lambda: None)
        context.prefill([*range(300, 300 + BEHIND)])
        contenders.append(Contender(name, held, context, _own_bytes() - before))
    seconds = in_turns(contenders, rows, turns)
    print(f"\n{kind}, {draft.parameters / 1e9:.2f}B, {str(contenders[0].draft.network.dtype).removeprefix('torch.')}\n")
    print(f"| | GB | {' | '.join(f'{number} rows, ms' for number in rows)} |\n|---|{'--:|' * (1 + len(rows))}")
    for each in contenders:
        cells = (f"{1e3 * median(seconds[each.name, number]):.0f}" for number in rows)
        print(f"| {each.name} | {each.grown_bytes / 1e9:.2f} | {' | '.join(cells)} |", flush=True)
    for rounds, rates in measured.items():
        words = "stays packed" if levels_gain_stored(rates) else "is decoded"
        print(f"\nMeasured{' in 8 bits' if rounds else ''}: {words}, as stored up to {rates.few_rows} rows.")
    for each in contenders:
        if each.draft.stream:
            each.draft.stream.close()


def in_turns(
    contenders: Sequence[Contender], rows: Sequence[int], turns: int
) -> Mapping[tuple[str, int], Sequence[float]]:
    """Seconds of passes over a level of so many rows, by contender and rows."""
    found: dict[tuple[str, int], list[float]] = {}
    for number in rows:
        tokens, parents = [*range(400, 400 + number)], [-1] * number
        for turn in range(-WARM_UPS, turns):
            for each in contenders if turn % 2 else reversed(contenders):
                begin = time.perf_counter()
                each.context.score(tokens, parents)
                taken = time.perf_counter() - begin
                each.context.rewind(BEHIND)
                if turn >= 0:
                    found.setdefault((each.name, number), []).append(taken)
    return found


def compare_answers(kind: str, options: LoadOptions, budgets: Sequence[int], turns: int) -> None:
    """Print the table of one pair."""
    with patch("engine.loading.planning.levels_gain_stored", lambda _rates: False):
        sessions = {"decoded": Session(options, quiet=True)}
    sessions["as planned"] = Session(options, quiet=True)
    tokenizer = Tokenizer.open(EMBEDDED)
    prompts = [Prompt(tuple(tokenizer.encode_chat(chat))) for chat in read_prompts(str(PROMPTS), turns + 1)]
    print(f"\n{kind}\n\n| | GB of the draft | {' | '.join(f'{each} nodes, tokens/s | per pass' for each in budgets)} |")
    print(f"|---|{'--:|' * (1 + 2 * len(budgets))}")
    told: dict[str, list[str]] = {name: [] for name in sessions}
    for budget in budgets:
        found: dict[str, list[Statistics]] = {name: [] for name in sessions}
        for number, prompt in enumerate(prompts):
            texts = []
            for name in sorted(sessions, reverse=number % 2 > 0):
                speculation = SpeculationOptions(method="specexec", budget=budget)
                asked = GenerateOptions(SamplingOptions(temperature=0.0), speculation, ANSWER_TOKENS)
                answer = sessions[name].collect(prompt, asked)
                texts.append(answer.token_ids)
                found[name] += [answer.statistics] if number else []  # the first one warms up
            assert texts[0] == texts[1], "the target's own text, whatever a draft says"
        for name, some in found.items():
            rates = [each.new_tokens / each.seconds.decode for each in some]
            told[name] += [f"{median(rates):.1f}", f"{median(each.tokens_per_pass for each in some):.1f}"]
    for name, session in sessions.items():
        assert session.loaded
        assert session.loaded.draft
        print(f"| {name} | {session.loaded.draft.bytes / 1e9:.2f} | {' | '.join(told[name])} |", flush=True)
        session.engine.close()


def _last(steps: Generator[Any, None, LoadedDraft]) -> LoadedDraft:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def _own_bytes() -> int:
    return int(psutil.Process().memory_full_info().uss)


if __name__ == "__main__":
    if "GOMP_SPINCOUNT" not in os.environ:  # what is said of threads has to be said before torch is imported
        let_idle_threads_sleep()
        os.execv(sys.executable, [sys.executable, "-m", "tests.bench.drafts", *sys.argv[1:]])
    main()
