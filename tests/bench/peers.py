"""Coppice beside llama.cpp (and AirLLM) on the same weights: tokens per second, in memory and from disk, in turns.

python -m tests.bench.peers [--gigabytes 1.6] [--kinds BF16,Q8_0,Q4_0] [--disk BF16] [--turns 5]
    [--shape grown|inflated|mixture] [--activations exact,int8]
    [--chains 4,8,16,32] [--read 768] [--budgets auto,8,16,64,128] [--held 0.75] [--weights auto] [--folder DIR]
    [--files DIR] [--write-only] [--save FILE] [--json]

Needs `pip install xllamacpp`, which is llama.cpp with its own server; `airllm` too, for its row. The target is the
embedded one, grown to so many bytes in bfloat16: in the proportions of a Llama of 1B (*grown*), or its MLPs widened
(*inflated*: 8 layers, of which a memory that is held to less than the file has no room for two). It writes the same
text. Or it is the trained mixture of `tests.mixture_pair` (*mixture*), its experts widened to so many bytes. Both
programs open the same GGUF files of target and draft. Each program runs once without a draft and once with what was
best of a short search: llama.cpp over lengths of its chain, Coppice over sizes of its tree. Where `--files` names a
folder, `model/`, `KIND/target.gguf` and `draft-BF16.gguf` are opened there, and written first if they are missing;
otherwise they are made for this run alone. All answer the same prompts, greedily and in turns; every one in a process
of its own, with as many threads. From disk: in a control group that holds less memory than the file has, with the page
cache dropped before each answer. Decoding is timed alone; so is, in memory, how those without a draft read long prompts
of random tokens.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.cli.bench import PROMPTS, read_prompts
from engine.cli.contenders import forget
from engine.cli.progress import say
from engine.text.tokenizer import Tokenizer
from tests.bench.folders import made_folder
from tests.bench.inflate import EMBEDDED
from tests.bench.memory_group import GroupError, held_to
from tests.bench.peer_files import Files
from tests.bench.peers_table import PEER, Case, as_text, machine, rows
from tests.bench.programs import NONE, AnswerError, Asked, Setup, Turn

WARM_UP_TOKENS = 8
SEARCH_TOKENS = 32
READ_TURNS = 2
PLAIN_TOKENS = {"memory": 16, "disk": 5}  # of who writes one token a pass: its passes are all alike


def main() -> None:
    """Measure, and print a table or one JSON document."""
    arguments = _parser().parse_args()
    if not (_names(arguments.chains) and _names(arguments.budgets)):
        raise SystemExit("--chains and --budgets: name at least one size of each")
    try:
        import xllamacpp  # noqa: F401
    except ImportError:
        raise SystemExit("llama.cpp is not here: pip install xllamacpp") from None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # or programs, files and groups would be left
    with tempfile.TemporaryDirectory(dir=arguments.folder) as made:
        files = Files(arguments.files or Path(made), arguments.shape, arguments.gigabytes)
        if arguments.write_only:
            files.write_all((*_names(arguments.kinds), *_names(arguments.disk)))
            return
        found = measure(Path(made), files, arguments)
    print(json.dumps(found) if arguments.json else as_text(found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.6, help="bytes of the decoder layers in bfloat16")
    parser.add_argument("--shape", choices=("inflated", "grown", "mixture"), default="grown")
    parser.add_argument("--kinds", default="BF16,Q8_0,Q4_0", help="types of GGUF files to compare in memory")
    parser.add_argument("--disk", default="BF16", help="types to compare from disk")
    parser.add_argument("--turns", type=int, default=5, help="prompts, each answered by all")
    parser.add_argument("--max-new-tokens", type=int, default=96)
    parser.add_argument("--read", type=int, default=768, help="tokens of a long prompt, whose reading is timed")
    parser.add_argument("--chains", default="4,8,16,32")
    parser.add_argument("--budgets", default="auto,8,16,64,128")
    parser.add_argument("--weights", default="auto", help="the number type that Coppice computes in")
    parser.add_argument("--activations", default="exact", help="of Coppice, one or more: exact,int8")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--held", type=float, default=0.75, help="memory from disk, as a part of the file")
    parser.add_argument("--folder", type=made_folder, default=None, help="where models are made (a real disk)")
    parser.add_argument("--files", type=Path, default=None, help="where models lie, or are left for the next run")
    parser.add_argument("--write-only", action="store_true", help="write the files, and measure nothing")
    parser.add_argument("--save", type=Path, default=None)
    parser.add_argument("--json", action="store_true")
    return parser


def measure(scratch: Path, files: Files, arguments: argparse.Namespace) -> dict[str, Any]:
    """A row for every contender of every case; what could not be compared is said in `left_out`."""
    shape = f"{arguments.shape}, {arguments.gigabytes:g} GB in bfloat16"
    tokenizer = Tokenizer.open(EMBEDDED)
    prompts = [tuple(tokenizer.encode_chat(chat)) for chat in read_prompts(str(PROMPTS), arguments.turns + 1)]
    found: dict[str, Any] = {
        "machine": machine(arguments.threads, arguments.weights, shape),
        "rows": [],
        "left_out": [],
    }
    resident, disk = _names(arguments.kinds), _names(arguments.disk)
    for kind in dict.fromkeys((*resident, *disk)):
        model = files.target(kind)
        held = int(arguments.held * model.stat().st_size)
        for names, held_bytes in ((resident, 0), (disk, held)):
            if kind in names:
                case = Case(kind, model, files.draft, scratch, held_bytes, arguments.weights)
                _compare(case, files, prompts, arguments, found)
                if arguments.save:  # after each: this takes long
                    arguments.save.write_text(json.dumps(found, indent=1), encoding="utf-8")
        if not arguments.files:
            model.unlink()
    return found


def _compare(
    case: Case, files: Files, prompts: Sequence[Sequence[int]], arguments: argparse.Namespace, found: dict[str, Any]
) -> None:
    try:
        ways = [(PEER, "exact", arguments.chains)]
        ways += [("Coppice", activations, arguments.budgets) for activations in _names(arguments.activations)]
        setups = [
            replace(case.setup(program, size, arguments.threads), activations=activations)
            for program, activations, sizes in ways
            for size in (NONE, best_size(case, program, _names(sizes), prompts, arguments.threads, activations))
        ]
        if case.from_disk:
            setups += _airllm(case, files.model, prompts[0], found["left_out"], arguments.threads)
        turns = in_turns(case, setups, prompts, arguments.max_new_tokens)
        plain = [setup for setup in setups if setup.size == NONE and setup.program != "AirLLM"]
        reads = {} if case.from_disk else in_turns(case, plain, _long_prompts(arguments.read), 1)
    except (GroupError, AnswerError) as error:
        found["left_out"].append(f"{case.kind} from {case.place}: {error}")
        return
    found["rows"] += rows(case, turns, reads)


def _long_prompts(tokens: int) -> list[tuple[int, ...]]:
    """Prompts of which nobody knows the beginning of another."""
    chance = random.Random(0)
    return [tuple(chance.randrange(300, 4000) for _ in range(tokens)) for _ in range(1 + READ_TURNS)]


def best_size(
    case: Case,
    program: str,
    sizes: Sequence[str],
    prompts: Sequence[Sequence[int]],
    threads: int,
    activations: str = "exact",
) -> str:
    """Of these the one whose second answer comes fastest; one alone is not tried. Raises `AnswerError`."""
    if len(sizes) == 1:
        return sizes[0]
    rates = {}
    for size in sizes:
        with _running(case, [replace(case.setup(program, size, threads), activations=activations)]) as (asked,):
            _ask(case, asked, prompts[0], SEARCH_TOKENS)
            rates[size] = _ask(case, asked, prompts[1], SEARCH_TOKENS).tokens_per_second
        say(f"{case.kind}: {program} {size}: {rates[size]:.1f} tokens/s")
    return max(rates, key=rates.__getitem__)


def _airllm(case: Case, folder: Path, prompt: Sequence[int], left_out: list[str], threads: int) -> list[Setup]:
    """Its setup, if it answers a prompt; else the reason is noted."""
    setup = replace(case.setup("AirLLM", NONE, threads), model=str(folder), draft="")
    try:
        with _running(case, [setup]) as (asked,):
            asked.answer(prompt, 2)
    except AnswerError as error:
        left_out.append(f"AirLLM: {error}")
        return []
    return [setup]


def in_turns(
    case: Case, setups: Sequence[Setup], prompts: Sequence[Sequence[int]], count: int
) -> dict[Setup, list[Turn]]:
    """Every setup's answers to all prompts but the first, which warms them up. Raises `AnswerError`."""
    turns: dict[Setup, list[Turn]] = {setup: [] for setup in setups}
    with _running(case, setups) as running:
        pairs = [*zip(setups, running, strict=True)]
        for setup, asked in pairs:
            _ask(case, asked, prompts[0], 2 if setup.size == NONE else WARM_UP_TOKENS)
        for number, prompt in enumerate(prompts[1:]):
            for setup, asked in reversed(pairs) if number % 2 else pairs:
                turns[setup].append(
                    _ask(case, asked, prompt, PLAIN_TOKENS[case.place] if setup.size == NONE else count)
                )
            say(f"{case.kind}: prompt {number + 1} of {len(prompts) - 1} done")
    return turns


@contextmanager
def _running(case: Case, setups: Sequence[Setup]) -> Iterator[list[Asked]]:
    """All of these programs, loaded; they end with the block. Raises `AnswerError` and `GroupError`.

    From disk each has a file of its own: what one program maps stays in memory, and would cost the others nothing.
    """
    with ExitStack() as stack:
        running = []
        for number, setup in enumerate(setups):
            words, own = [], setup
            if case.from_disk:
                words = stack.enter_context(held_to(case.held_bytes))
                own = replace(setup, model=str(stack.enter_context(_copy(Path(setup.model)))))
            asked = Asked(own, words, case.scratch / f"errors-{number}.txt")
            stack.callback(asked.close)
            running.append(asked)
        yield running


@contextmanager
def _copy(model: Path) -> Iterator[Path]:
    """A GGUF file once more, in a folder of its own; a folder as it is."""
    if model.is_dir():
        yield model
        return
    with tempfile.TemporaryDirectory(dir=model.parent) as folder:
        copied = Path(shutil.copy(model, folder))
        os.sync()
        forget(copied.parent)  # or a program would map what copying left in memory, at nobody's cost
        yield copied


def _ask(case: Case, asked: Asked, prompt: Sequence[int], count: int) -> Turn:
    if case.from_disk:
        os.sync()  # what still has to be written stays in memory, whoever wants to forget it
        model, split = Path(asked.setup.model), Path(asked.setup.cache) / "airllm" / "splitted_model"
        for folder in (model if model.is_dir() else model.parent, split):
            if folder.exists():
                forget(folder)
    return asked.answer(prompt, count)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


if __name__ == "__main__":
    main()
