"""What the comparison with other programs found: rows, ratios, and a table in Markdown."""

import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.bench.programs import NONE, Setup, Turn

PEER = "llama.cpp"


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison: the files, and where they are read from. `held_bytes`: memory of each program; 0 for all."""

    kind: str
    model: Path
    draft: Path
    scratch: Path
    held_bytes: int = 0
    weights: str = "auto"

    @property
    def from_disk(self) -> bool:
        """Whether the file does not fit the memory."""
        return self.held_bytes > 0

    @property
    def place(self) -> str:
        """Its name in the table."""
        return "disk" if self.from_disk else "memory"

    def setup(self, program: str, size: str, threads: int) -> Setup:
        """A program with these files."""
        return Setup(
            program,
            str(self.model),
            str(self.draft),
            size,
            "auto" if self.from_disk else "device",
            self.weights,
            str(self.scratch / "cache"),
            threads,
        )


def rows(
    case: Case, turns: Mapping[Setup, Sequence[Turn]], reads: Mapping[Setup, Sequence[Turn]]
) -> Iterator[dict[str, Any]]:
    """One for every setup; ratios are medians over the turns, against llama.cpp without and with a draft.

    `reads`: answers to long prompts, of those without a draft; may be empty.
    """
    plain = next(setup for setup in turns if setup.program == PEER and setup.size == NONE)
    drafting = next(setup for setup in turns if setup.program == PEER and setup.size != NONE)
    for setup, done in turns.items():
        yield {
            "weights": case.kind,
            "place": case.place,
            "file_bytes": case.model.stat().st_size,
            "held_bytes": case.held_bytes,
            "program": setup.program,
            "activations": setup.activations,
            "size": setup.size,
            "tokens_per_second": statistics.median(turn.tokens_per_second for turn in done),
            "tokens_per_pass": sum(turn.counted for turn in done) / sum(turn.passes for turn in done),
            "seconds_per_pass": sum(turn.seconds for turn in done) / sum(turn.passes for turn in done),
            "over_plain_peer": ratio(done, turns[plain]),
            "over_drafting_peer": ratio(done, turns[drafting]),
            "read_per_second": statistics.median(turn.read_per_second for turn in reads[setup])
            if setup in reads
            else 0.0,
            "read_over_peer": _read_ratio(reads[setup], reads[plain]) if setup in reads else 0.0,
            "same_texts": sum(same_text(a.tokens, b.tokens) for a, b in zip(done, turns[plain], strict=True)),
            "texts": len(done),
        }


def ratio(turns: Sequence[Turn], others: Sequence[Turn]) -> float:
    """How many times as fast, a median over the turns."""
    pairs = zip(turns, others, strict=True)
    return statistics.median(turn.tokens_per_second / other.tokens_per_second for turn, other in pairs)


def _read_ratio(turns: Sequence[Turn], others: Sequence[Turn]) -> float:
    return statistics.median(
        turn.read_per_second / other.read_per_second for turn, other in zip(turns, others, strict=True)
    )


def same_text(tokens: Sequence[int], others: Sequence[int]) -> bool:
    """Whether two texts are the same, as far as both go."""
    return all(token == other for token, other in zip(tokens, others, strict=False))


def as_text(found: Mapping[str, Any]) -> str:
    """The table in Markdown, then what was left out."""
    lines = [
        f"{found['machine']['processor']}, {found['machine']['threads']} threads, {found['machine']['shape']} target",
        "",
        "| weights | read from | who | drafts | tokens/s | tokens per pass | ms per pass "
        "| over llama.cpp without a draft | over llama.cpp with its draft | same texts "
        "| tokens/s of a long prompt, over llama.cpp |",
        "|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in found["rows"]:
        held = (
            f", held to {row['held_bytes'] / 1e9:.2f} of {row['file_bytes'] / 1e9:.2f} GB" if row["held_bytes"] else ""
        )
        figures = (
            f"{row['tokens_per_second']:.1f} | {row['tokens_per_pass']:.2f} | {1000 * row['seconds_per_pass']:.0f}"
        )
        ratios = f"{row['over_plain_peer']:.2f} | {row['over_drafting_peer']:.2f}"
        texts = f"{row['same_texts']} of {row['texts']}"
        program = row["program"] if row["activations"] == "exact" else f"{row['program']}, {row['activations']}"
        who = f"{row['weights']} | {row['place']}{held} | {program} | {row['size']}"
        read = f"{row['read_per_second']:.0f}, {row['read_over_peer']:.2f}" if row["read_per_second"] else ""
        lines.append(f"| {who} | {figures} | {ratios} | {texts} | {read} |")
    return "\n".join([*lines, "", *(f"Left out: {reason}" for reason in found["left_out"])])


def machine(threads: int, weights: str, shape: str) -> dict[str, Any]:
    """What the figures are of."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "threads": threads,
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "coppice_weights": weights,
        "shape": shape,
    }
