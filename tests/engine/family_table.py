"""The table of families in the docs and the set of verified ones in the engine: both written from the same verdicts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import transformers

from tests.engine.family_proof import Standing, Verdict

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "resources" / "docs" / "families.md"
MODULE = ROOT / "engine" / "model" / "verified_families.py"

HEAD = """# Which families of models open

Every family that transformers {version} has a class for text of, alone or with pictures or sound beside it, by its
`model_type` in config.json. Of each a tiny random model was made, saved as transformers saves it, opened as the engine
opens it, and compared with transformers' own in float32: the logits of a tree with those of every path alone, and
greedy text with trees of 1, 16 and 64 tokens with `generate`. Written by `python -m tests.campaigns.families`.

- *exact*: all of it was equal. Of a model that also reads pictures or sound, only the language model is loaded.
- *opens*: it opens, but not all of it was equal, or could be compared.
- *refused*: Coppice says why it does not open it.
- *untried*: no tiny model of it could be made here. One that opens is probed as it is loaded.

{counts}

| family | language model | result | because |
|---|---|---|---|
"""
MODULE_HEAD = '''"""The language models, by their model_type, whose trees and text equal transformers' own.

Written by `python -m tests.campaigns.families`, with the table in `resources/docs/families.md`.
"""

VERIFIED = frozenset(
    {
'''
MODULE_TAIL = "    }\n)\n"


def verified(rows: Iterable[Verdict]) -> list[str]:
    """The language models that were exact wherever they were found."""
    rows = list(rows)
    wrong = {row.text for row in rows if row.standing is Standing.OPENS}
    return sorted({row.text for row in rows if row.standing is Standing.EXACT} - wrong)


def write_table(rows: Sequence[Verdict]) -> None:
    """Replace the table in the docs."""
    counts = Counter(row.standing for row in rows)
    told = ", ".join(f"{counts[standing]} {standing.value}" for standing in Standing)
    lines = [f"| {row.family} | {row.text} | {row.standing} | {_cell(row.because)} |\n" for row in rows]
    head = HEAD.format(version=transformers.__version__, counts=f"{len(rows)} families: {told}.")
    TABLE.write_text(head + "".join(lines), "utf-8")


def read_table() -> list[Verdict]:
    """The rows of the table in the docs."""
    cells = [line.strip("| \n").split(" | ") for line in TABLE.read_text("utf-8").splitlines() if line.startswith("| ")]
    return [_verdict(row) for row in cells[1:]]


def write_verified(rows: Iterable[Verdict]) -> None:
    """Replace the set in the engine."""
    MODULE.write_text(MODULE_HEAD + "".join(f'        "{name}",\n' for name in verified(rows)) + MODULE_TAIL, "utf-8")


def _verdict(cells: list[str]) -> Verdict:
    family, text, standing, because = [*(cell.strip() for cell in cells), "", ""][:4]
    return Verdict(family, Standing(standing), text, because)


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")
