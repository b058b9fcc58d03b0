"""What the passes over random mixtures took, as tables in Markdown."""

from collections.abc import Iterator, Mapping
from typing import Any

WAYS = ("whole", "single", "computed", "auto")


def as_text(found: Mapping[str, Any]) -> str:
    """One table of passes, and one beside llama.cpp where that was asked for."""
    told = found["machine"]
    lines = [f"{told['processor']}, {told['threads']} threads; ms per pass, fastest (median)", "", *_passes(found)]
    if found["peers"]:
        lines += ["", *_peers(found)]
    return "\n".join(lines)


def _passes(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"| mixture | read from | rows | {' | '.join(WAYS)} | auto over the best | outputs |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|---|"
    for row in found["rows"]:
        ways = row["ways"]
        times = " | ".join(f"{1000 * ways[way]['fastest']:.1f} ({1000 * ways[way]['median']:.1f})" for way in WAYS)
        over = f"{row['auto_over_best']:.2f} ({row['auto_over_best_median']:.2f})"
        yield f"| {row['shape']} | {row['place']} | {row['rows']} | {times} | {over} | {_outputs(ways)} |"


def _outputs(ways: Mapping[str, Any]) -> str:
    others = [way for way in WAYS[1:] if not ways[way]["same_bits"]]
    if not others:
        return "all the same bits"
    return ", ".join(f"{way}: {ways[way]['difference']:.1e} apart" for way in others)


def _peers(found: Mapping[str, Any]) -> Iterator[str]:
    yield "| mixture | llama.cpp, tokens/s | Coppice, tokens/s | ratio | same texts |"
    yield "|---|--:|--:|--:|--:|"
    for row in found["peers"]:
        if "left_out" in row:
            yield f"| {row['shape']} | left out: {row['left_out']} | | | |"
            continue
        rates = row["tokens_per_second"]
        speeds = f"{rates['llama.cpp']:.1f} | {rates['Coppice']:.1f} | {row['over_peer']:.2f}"
        yield f"| {row['shape']} | {speeds} | {row['same_texts']} of {row['texts']} |"
