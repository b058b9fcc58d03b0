"""`bench`: our methods and what a user would otherwise run, on the same weights, prompts and machine."""

import argparse
import json
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import transformers

from engine.cli.arguments import generate_options, load_options
from engine.cli.baselines import BASELINES
from engine.cli.session import Session, parse_json, read_messages, read_text, say
from engine.engine import Prompt
from engine.errors import InputError
from engine.messages import ChatMessage, Seconds
from engine.options import METHODS

PROMPTS = Path(__file__).parents[2] / "resources" / "bench" / "prompts.jsonl"
WARM_UP_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Run:
    """One answer by one contender. `passes` 0: the contender does not tell."""

    token_ids: tuple[int, ...]
    decode_seconds: float
    timed_tokens: int
    passes: int = 0
    seconds: Seconds = field(default_factory=Seconds)


Contender = Callable[[Prompt, int], Run]
"""(prompt, max new tokens) -> one answer."""


def bench(arguments: argparse.Namespace) -> None:
    """Run the command; raises `CoppiceError` for bad input."""
    _check(arguments)
    chats = _read_prompts(arguments.prompts or str(PROMPTS), arguments.prompt_count)
    session = Session(load_options(arguments), quiet=arguments.json)
    contenders = _contenders(arguments, session)
    prompts = [session.engine.prompt(chat) for chat in chats]
    runs: dict[str, list[Run]] = {name: [] for name in contenders}
    for name, contender in contenders.items():
        contender(prompts[0], WARM_UP_TOKENS)
        say(f"warmed up {name}")
    for number, prompt in enumerate(prompts, start=1):
        for name, contender in contenders.items():  # interleaved, so that a noisy minute hits all alike
            runs[name].append(contender(prompt, arguments.max_new_tokens))
        say(f"prompt {number} of {len(prompts)} done")
    rows = [_row(name, runs[name], runs["none"]) for name in contenders]
    document = {"machine": _machine(session), "settings": _settings(arguments), "rows": rows}
    sys.stdout.write(json.dumps(document) + "\n" if arguments.json else _table(document))


def _check(arguments: argparse.Namespace) -> None:
    known = [method for method in METHODS if method != "auto"]
    for given, allowed, what in (
        (arguments.methods, known, "method"),
        (arguments.baselines, list(BASELINES), "baseline"),
    ):
        if unknown := [name for name in given if name not in allowed]:
            raise InputError(f"There is no {what} '{unknown[0]}'.", f"Choose among {', '.join(allowed)}.")
    if arguments.prompt_count < 1:
        raise InputError(f"{arguments.prompt_count} prompts are too few.", "Give at least 1.")
    for budget in arguments.budgets or [arguments.budget]:
        if arguments.budgets and budget < 1:
            raise InputError(f"Budget {budget} is out of range.", "Give numbers of nodes from 1 on.")
        generate_options(arguments, "none", budget, arguments.seed).check()


def _contenders(arguments: argparse.Namespace, session: Session) -> dict[str, Contender]:
    """Every row's name and how to run it; `none` is always there, as what the others are measured against."""

    def ours(method: str, budget: int) -> Contender:
        options = generate_options(arguments, method, budget, arguments.seed)

        def run(prompt: Prompt, max_new_tokens: int) -> Run:
            answer = session.collect(prompt, replace(options, max_new_tokens=max_new_tokens))
            seconds = answer.statistics.seconds
            tokens = tuple(answer.token_ids)
            return Run(tokens, seconds.decode, len(tokens), answer.statistics.passes, seconds)

        return run

    contenders: dict[str, Contender] = {"none": ours("none", 0)}
    for method in arguments.methods:
        for budget in arguments.budgets or [arguments.budget]:
            if method != "none":
                contenders[f"{method} {budget}" if arguments.budgets else method] = ours(method, budget)
    options = generate_options(arguments, "none", 0, arguments.seed)
    for name in arguments.baselines:
        baseline = BASELINES[name](session.engine, options)
        contenders[name] = lambda prompt, count, baseline=baseline: Run(*baseline(prompt.tokens, count))  # type: ignore[misc]
    return contenders


def _row(name: str, runs: Sequence[Run], reference: Sequence[Run]) -> dict[str, Any]:
    decode = sum(run.decode_seconds for run in runs)
    passes = sum(run.passes for run in runs)
    tokens = sum(len(run.token_ids) for run in runs)
    rate = sum(run.timed_tokens for run in runs) / decode
    reference_rate = sum(run.timed_tokens for run in reference) / sum(run.decode_seconds for run in reference)
    split = {part: sum(asdict(run.seconds)[part] for run in runs) for part in ("draft", "target", "other", "decode")}
    return {
        "method": name,
        "tokens_per_second": rate,
        "tokens_per_pass": tokens / passes if passes else None,
        "speedup": rate / reference_rate,
        "seconds_per_pass": decode / passes if passes else None,
        "new_tokens": tokens,
        "passes": passes or None,
        "seconds": split if passes else {"decode": decode},
        "same_text_as_none": sum(a.token_ids == b.token_ids for a, b in zip(runs, reference, strict=True)),
    }


def _machine(session: Session) -> dict[str, Any]:
    assert session.loaded
    target, draft = session.loaded.target, session.loaded.draft
    cuda = torch.cuda.get_device_name() if target.device.startswith("cuda") else None
    return {
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "cuda": cuda,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "target": asdict(target),
        "draft": asdict(draft) if draft else None,
    }


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    names = ("max_new_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "prompt_count", "ignore_eos")
    return {name: getattr(arguments, name) for name in names}


def _table(document: dict[str, Any]) -> str:
    lines = [f"{'method':<16}{'tokens/s':>10}{'tokens/pass':>13}{'ms/pass':>10}{'speed-up':>10}{'same text':>11}"]
    for row in document["rows"]:
        per_pass = f"{row['tokens_per_pass']:.2f}" if row["tokens_per_pass"] else "-"
        pass_ms = f"{row['seconds_per_pass'] * 1000:.1f}" if row["seconds_per_pass"] else "-"
        same = f"{row['same_text_as_none']}/{document['settings']['prompt_count']}"
        lines.append(
            f"{row['method']:<16}{row['tokens_per_second']:>10.1f}{per_pass:>13}{pass_ms:>10}{row['speedup']:>10.2f}{same:>11}"
        )
    return "\n".join(lines) + "\n"


def _read_prompts(path: str, count: int) -> list[list[ChatMessage]]:
    chats = []
    for line in read_text(path).splitlines():
        if line.strip():
            value = parse_json(line, path)
            fields = value if isinstance(value, dict) else {}
            prompt = fields.get("prompt")
            chats.append(
                [ChatMessage("user", prompt)]
                if isinstance(prompt, str)
                else read_messages(fields.get("messages"), path)
            )
    if len(chats) < count:
        raise InputError(f"{path} holds {len(chats)} prompts, not {count}.", "Ask for fewer with --prompt-count.")
    return chats[:count]
