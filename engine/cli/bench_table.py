"""What a benchmark found, as rows of figures, and as text."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from engine.cli.contenders import REFERENCE, Contender, Run

PARTS = ("draft", "target", "other", "decode", "hidden_draft")


def rows(runs: Mapping[Contender, Sequence[Run]]) -> list[dict[str, Any]]:
    """One row per contender; speed-ups are against the reference at the same temperature."""
    references = {who.temperature: done for who, done in runs.items() if who.method == REFERENCE}
    return [_row(who, done, references[who.temperature]) for who, done in runs.items()]


def _row(who: Contender, runs: Sequence[Run], reference: Sequence[Run]) -> dict[str, Any]:
    decode = sum(run.decode_seconds for run in runs)
    passes = sum(run.passes for run in runs)
    tokens = sum(len(run.token_ids) for run in runs)
    split = {part: sum(asdict(run.seconds)[part] for run in runs) for part in PARTS}
    return {
        "method": who.name,
        "budget": who.budget or None,
        "temperature": who.temperature,
        "tokens_per_second": _rate(runs),
        "tokens_per_pass": tokens / passes if passes else None,
        "speedup": _rate(runs) / _rate(reference),
        "seconds_per_pass": decode / passes if passes else None,
        "seconds_per_token": 1 / _rate(runs),
        "new_tokens": tokens,
        "passes": passes or None,
        "stream_gb_per_second": sum(run.bytes_streamed for run in runs) / decode / 1e9,
        "seconds": split if passes else {"decode": decode},
        "prompts": [_prompt(run, plain) for run, plain in zip(runs, reference, strict=True)],
        "same_text_as_none": sum(a.agrees_with(b) for a, b in zip(runs, reference, strict=True)),
    }


def _prompt(run: Run, reference: Run) -> dict[str, Any]:
    """One prompt's share of a row, so that means of means can be made."""
    return {
        "new_tokens": len(run.token_ids),
        "passes": run.passes or None,
        "tokens_per_pass": len(run.token_ids) / run.passes if run.passes else None,
        "tokens_per_second": run.timed_tokens / run.decode_seconds,
        "decode_seconds": run.decode_seconds,
        "bytes_streamed": run.bytes_streamed,
        "same_text_as_none": run.agrees_with(reference),
    }


def _rate(runs: Sequence[Run]) -> float:
    return sum(run.timed_tokens for run in runs) / sum(run.decode_seconds for run in runs)


def as_text(document: Mapping[str, Any]) -> str:
    """The table for a terminal, a block per temperature."""
    heads = ("T", "tokens/s", "tokens/pass", "ms/pass", "speed-up", "same text")
    lines = ["{:<18}{:>6}{:>10}{:>13}{:>10}{:>10}{:>11}".format("method", *heads)]
    for row in document["rows"]:
        per_pass = f"{row['tokens_per_pass']:.2f}" if row["tokens_per_pass"] else "-"
        pass_ms = f"{row['seconds_per_pass'] * 1000:.1f}" if row["seconds_per_pass"] else "-"
        same = f"{row['same_text_as_none']}/{document['settings']['prompt_count']}"
        lines.append(
            f"{row['method']:<18}{row['temperature']:>6g}{row['tokens_per_second']:>10.1f}{per_pass:>13}{pass_ms:>10}"
            f"{row['speedup']:>10.2f}{same:>11}"
        )
    return "\n".join(lines) + "\n"
