"""`bench`: our methods and what a user would otherwise run, on the same weights, prompts and machine."""

import argparse
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers

from engine import __version__, accelerator
from engine.cli.calibrate import calibrate
from engine.cli.contenders import BASELINES, EVERY, REFERENCE, Contender, Run, contenders, our_options, temperatures
from engine.cli.messages import read_messages
from engine.cli.model_options import load_options
from engine.cli.progress import say, tell
from engine.cli.session import Session, origin_of, parse_json, read_text
from engine.errors import InputError
from engine.protocol.messages import ChatMessage
from engine.protocol.options import METHODS
from engine.weights.planning.machine import peak_rss_bytes

PROMPTS = Path(__file__).parents[2] / "resources" / "bench" / "prompts.jsonl"
WARM_UP_TOKENS = 8

PARTS = ("draft", "target", "other", "decode", "hidden_draft")


def bench(arguments: argparse.Namespace) -> None:
    """Run the command; raises `CoppiceError` for bad input."""
    _check(arguments)
    chats = read_prompts(arguments.prompts or str(PROMPTS), arguments.prompt_count)
    session = Session(load_options(arguments), quiet=arguments.json)
    prompts = [session.prompt(chat, arguments.raw) for chat in chats]
    found = {"calibration": calibrate(arguments, session, prompts)} if arguments.calibrate else {}
    runs: dict[Contender, list[Run]] = {contender: [] for contender in contenders(arguments, session)}
    for contender in runs:
        contender.answer(prompts[0], WARM_UP_TOKENS)
        say(f"warmed up {contender.name}")
    for number, prompt in enumerate(prompts, start=1):
        for contender, done in runs.items():  # interleaved, so that a noisy minute hits all alike
            done.append(contender.answer(prompt, arguments.max_new_tokens))
        say(f"prompt {number} of {len(prompts)} done")
    memory = {
        "peak_rss_bytes": peak_rss_bytes(),
        "peak_vram_bytes": accelerator.peak_bytes(),
        "planned_bytes": session.planned_bytes,
    }
    document = {"machine": _machine(session), "settings": _settings(arguments), "rows": rows(runs), **found, **memory}
    if arguments.save:
        _save(document, Path(arguments.save))
    tell(json.dumps(document) + "\n" if arguments.json else as_text(document))


def _check(arguments: argparse.Namespace) -> None:
    for given, allowed, what in (
        (arguments.methods, [EVERY, *METHODS], "method"),
        (arguments.baselines, list(BASELINES), "baseline"),
    ):
        if unknown := [name for name in given if name not in allowed]:
            raise InputError(f"There is no {what} '{unknown[0]}'.", f"Choose among {', '.join(allowed)}.")
    if arguments.prompt_count < 1:
        raise InputError(f"{arguments.prompt_count} prompts are too few.", "Give at least 1.")
    # fail before the hours of measuring, not after them
    if arguments.save and not Path(arguments.save).absolute().parent.is_dir():
        raise InputError(f"{arguments.save} lies in no folder that exists.", "Choose another path for --save.")
    for temperature in temperatures(arguments):
        our_options(arguments, temperature)


def _save(document: dict[str, Any], path: Path) -> None:
    try:
        path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    except OSError as error:
        say(f"warning: {path} could not be written: {error.strerror}. The table is below.")


def _machine(session: Session) -> dict[str, Any]:
    assert session.loaded
    target, draft = session.loaded.target, session.loaded.draft
    device = torch.device(target.device)
    return {
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "gpu": accelerator.name(device) if accelerator.is_accelerator(device) else None,
        "coppice": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "target": asdict(target),
        "draft": asdict(draft) if draft else None,
    }


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Every option, by its name on the command line, so that a saved table can be made again."""
    left_out = ("command", "json", "save")
    given = {name: value for name, value in vars(arguments).items() if name not in left_out}
    return {**given, "prompts": arguments.prompts or str(PROMPTS)}


def read_prompts(path: str, count: int) -> list[list[ChatMessage]]:
    """The first `count` chats of a file of JSON lines; raises `InputError` if it holds fewer, or something else."""
    chats, origin = [], origin_of(path)
    for line in read_text(path).split("\n"):  # alone: texts may hold U+2028 and other ends of lines as they are
        if line.strip():
            value = parse_json(line, origin)
            fields = value if isinstance(value, dict) else {}
            prompt = fields.get("prompt")
            chats.append(
                [ChatMessage("user", prompt)]
                if isinstance(prompt, str)
                else read_messages(fields.get("messages"), origin)
            )
    if len(chats) < count:
        raise InputError(f"{origin} holds {len(chats)} prompts, not {count}.", "Ask for fewer with --prompt-count.")
    return chats[:count]


def rows(runs: Mapping[Contender, Sequence[Run]]) -> list[dict[str, Any]]:
    """One row per contender; speed-ups are against the reference at the same temperature."""
    references = {contender.temperature: done for contender, done in runs.items() if contender.method == REFERENCE}
    return [_row(contender, done, references[contender.temperature]) for contender, done in runs.items()]


def _row(contender: Contender, runs: Sequence[Run], reference: Sequence[Run]) -> dict[str, Any]:
    decode = sum(run.decode_seconds for run in runs)
    passes = sum(run.passes for run in runs)
    tokens = sum(len(run.token_ids) for run in runs)
    split = {part: sum(asdict(run.seconds)[part] for run in runs) for part in PARTS}
    rate, plain_rate = _rate(runs), _rate(reference)
    return {
        "method": contender.name,
        "budget": contender.budget or None,
        "temperature": contender.temperature,
        "tokens_per_second": rate,
        "tokens_per_pass": tokens / passes if passes else None,
        "speedup": rate / plain_rate if rate and plain_rate else None,
        "seconds_per_pass": decode / passes if passes else None,
        "seconds_per_token": 1 / rate if rate else None,
        "new_tokens": tokens,
        "passes": passes or None,
        "stream_gb_per_second": sum(run.bytes_streamed for run in runs) / decode / 1e9 if decode else None,
        "seconds": split if passes else {"decode": decode},
        "prompts": [_prompt(run, plain) for run, plain in zip(runs, reference, strict=True)],
        "same_text_as_none": sum(a.agrees_with(b) for a, b in zip(runs, reference, strict=True)),
    }


def _prompt(run: Run, reference: Run) -> dict[str, Any]:
    """One prompt's share of a row, for means over prompts."""
    return {
        "new_tokens": len(run.token_ids),
        "passes": run.passes or None,
        "tokens_per_pass": len(run.token_ids) / run.passes if run.passes else None,
        "tokens_per_second": _rate([run]),
        "decode_seconds": run.decode_seconds,
        "bytes_streamed": run.bytes_streamed,
        "same_text_as_none": run.agrees_with(reference),
    }


def _rate(runs: Sequence[Run]) -> float | None:
    """Tokens per second; None where none was timed, as of baselines that wrote their first alone."""
    tokens, seconds = sum(run.timed_tokens for run in runs), sum(run.decode_seconds for run in runs)
    return tokens / seconds if tokens and seconds else None


def as_text(document: Mapping[str, Any]) -> str:
    """The table for a terminal, a block per temperature."""
    heads = ("T", "tokens/s", "tokens/pass", "ms/pass", "speed-up", "same text")
    lines = ["{:<18}{:>6}{:>10}{:>13}{:>10}{:>10}{:>11}".format("method", *heads)]
    for row in document["rows"]:
        rate = f"{row['tokens_per_second']:.1f}" if row["tokens_per_second"] else "-"
        per_pass = f"{row['tokens_per_pass']:.2f}" if row["tokens_per_pass"] else "-"
        pass_ms = f"{row['seconds_per_pass'] * 1000:.1f}" if row["seconds_per_pass"] else "-"
        speedup = f"{row['speedup']:.2f}" if row["speedup"] else "-"
        same = f"{row['same_text_as_none']}/{document['settings']['prompt_count']}"
        lines.append(
            f"{row['method']:<18}{row['temperature']:>6g}{rate:>10}{per_pass:>13}{pass_ms:>10}{speedup:>10}{same:>11}"
        )
    return "\n".join(lines) + "\n"
