"""`generate`: answers on stdout, one document with --json, one line a round with --trace."""

import argparse
import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from engine import accelerator
from engine.cli.arguments import generate_options
from engine.cli.messages import read_messages, read_pictures
from engine.cli.model_options import load_options
from engine.cli.progress import print_json, say, tell
from engine.cli.session import STDIN, CollectedAnswer, Session, origin_of, parse_json, read_text
from engine.errors import InputError
from engine.protocol.messages import ChatMessage, Round
from engine.protocol.options import GenerateOptions
from engine.text.prompt import Prompt
from engine.weights.planning.machine import peak_rss_bytes


def generate(arguments: argparse.Namespace) -> None:
    """Run the command; raises `CoppiceError` for bad input."""
    if arguments.samples < 1:
        raise InputError(f"{arguments.samples} samples are too few.", "Give at least 1.")
    if arguments.image and arguments.prompt is None:
        raise InputError("An --image goes with a --prompt.", "Name pictures of messages in their own file.")
    options = [
        generate_options(arguments, arguments.method, arguments.budget, arguments.seed + sample)
        for sample in range(arguments.samples)
    ]
    for each in options:
        each.check()
    chat = None if arguments.token_ids is not None else _read_chat(arguments)
    token_ids = _parse_ids(arguments.token_ids) if chat is None else None
    with ExitStack() as files:
        trace = Trace(files.enter_context(_open_trace(arguments.trace))) if arguments.trace else None
        session = Session(load_options(arguments), quiet=arguments.json)
        prompt = session.prompt(chat, arguments.raw) if chat is not None else Prompt(tuple(token_ids or ()))
        documents = [_answer(session, prompt, each, trace, live=not arguments.json) for each in options]
    if arguments.json:  # only now: whatever failed until here left stdout empty
        print_json(documents[0] if arguments.samples == 1 else {"samples": documents})


class Trace:
    """The rounds of all answers, a line each, written as they come; until the first the file keeps what it held."""

    def __init__(self, file: TextIO) -> None:
        """`file`: opened to append to it."""
        self._file = file
        self._has_begun = False

    def write(self, event: Round) -> None:
        """Write one line, so that it stays whatever happens next; raises `OSError`."""
        if not self._has_begun and self._file.seekable() and self._file.tell():  # pipes and devices hold nothing
            self._file.truncate(0)
        self._has_begun = True
        self._file.write(json.dumps(_trace_line(event)) + "\n")
        self._file.flush()


def _answer(
    session: Session, prompt: Prompt, options: GenerateOptions, trace: Trace | None, live: bool
) -> dict[str, Any]:
    answer = CollectedAnswer()
    traced = 0
    try:
        for text, so_far in session.answer(prompt, options):
            answer = so_far
            if trace:
                for event in answer.rounds[traced:]:
                    trace.write(event)
                traced = len(answer.rounds)
            if live:
                tell(text)
                sys.stdout.flush()
    finally:
        if live and (answer.text or answer.reason):  # what follows, be it an error, begins a line of its own
            sys.stdout.write("\n")
            sys.stdout.flush()
    if live:
        say(_summary(answer))
    return _document(session, answer)


def _document(session: Session, answer: CollectedAnswer) -> dict[str, Any]:
    """The fields of one answer; a pass is a target forward after prefill."""
    statistics = answer.statistics
    assert session.loaded
    return {
        "text": answer.text,
        "token_ids": answer.token_ids,
        "prompt_tokens": statistics.prompt_tokens,
        "new_tokens": statistics.new_tokens,
        "finish_reason": answer.reason,
        "method": statistics.method,
        "budget": statistics.budget,
        "passes": statistics.passes,
        "tokens_per_pass": statistics.tokens_per_pass,
        "tokens_per_second": statistics.tokens_per_second,
        "drafted_nodes": statistics.drafted_nodes,
        "short_passes": statistics.short_passes,
        "first_token_seconds": statistics.first_token_seconds,
        "seconds": {**asdict(statistics.seconds), "load": session.load_seconds},
        "common_tokens": asdict(common) if (common := session.loaded.common_tokens) else None,
        "placement": {tier: session.loaded.tiers.count(tier) for tier in ("device", "ram", "ssd")},
        "bytes_streamed": statistics.bytes_streamed,
        "stream_gb_per_second": statistics.stream_gb_per_second,
        "peak_rss_bytes": peak_rss_bytes(),
        "peak_vram_bytes": accelerator.peak_bytes(),
        "planned_bytes": session.planned_bytes,
        "pinned_bytes": session.loaded.residence.pinned.taken if session.loaded.residence else 0,
    }


def _trace_line(event: Round) -> dict[str, Any]:
    tree = event.tree
    parents = memoryview(tree.parents).cast("i").tolist()
    depths = [0]
    for parent in parents[1:]:
        depths.append(depths[parent] + 1)
    return {
        "round": event.index,
        "tokens": memoryview(tree.tokens).cast("i").tolist(),
        "parents": parents,
        "log_probs": memoryview(tree.log_probs).cast("f").tolist(),
        "depths": depths,
        "accepted": list(event.accepted),
        "bonus": event.bonus,
        "pieces": list(tree.pieces),
        "bonus_piece": event.bonus_piece,
        "seconds": asdict(event.seconds),
    }


def _summary(answer: CollectedAnswer) -> str:
    statistics = answer.statistics
    note = f" ({statistics.note})" if statistics.note else ""
    return (
        f"{_count(statistics.new_tokens, 'token', 'tokens')} in {_count(statistics.passes, 'pass', 'passes')}: "
        f"{statistics.tokens_per_pass:.1f} tokens/pass, "
        f"{statistics.tokens_per_second:.1f} tokens/s, {statistics.method}{note}; ended by {answer.reason}"
    )


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _read_chat(arguments: argparse.Namespace) -> list[ChatMessage]:
    if arguments.messages is not None:
        origin = origin_of(arguments.messages)
        folder = Path() if arguments.messages == STDIN else Path(arguments.messages).parent
        return read_messages(parse_json(read_text(arguments.messages), origin), origin, folder)
    prompt = read_text(STDIN).rstrip("\r\n") if arguments.prompt == STDIN else arguments.prompt
    if not prompt.strip():
        raise InputError("The prompt is empty.", "Write something first.")
    return [ChatMessage("user", prompt, pictures=read_pictures(arguments.image))]


def _parse_ids(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise InputError(f"'{text[:80]}' is not a list of token ids.", "Give whole numbers like 1,2,3.") from error
    if not found:
        raise InputError("The prompt is empty.", "Give whole numbers like 1,2,3.")
    return found


def _open_trace(path: str) -> TextIO:
    try:
        return open(path, "a", encoding="utf-8")  # noqa: PTH123  # entered by the caller
    except OSError as error:
        raise InputError(f"The trace cannot be written to {path}: {error.strerror}.", "Choose another file.") from error
