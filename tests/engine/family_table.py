"""The table of families in the docs and the set of verified ones in the engine: both written from the same verdicts."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill

import transformers

from engine.model.gguf.config import KNOWN
from tests.engine.family_proof import Standing, Verdict

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "resources" / "docs" / "families.md"
MODULE = ROOT / "engine" / "model" / "families" / "verified_families.py"

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
FOOT = """
## In GGUF files

By the `general.architecture` of the file; weights, config, tokenizer and chat template are read from it. Of each a
tiny random model was written as llama.cpp's converter would, and its logits were those of the network that it was made
of, bit for bit in float32 (`tests/engine/model/gguf`). Layers that only predict further tokens are left out, and of a
model that also reads pictures or sound the file holds the language model alone. What stands above of a family holds
for its files, too. Other architectures are refused in a sentence.

{architectures}
"""
MODULE_HEAD = '''\
"""What the tests found of language models, by model_type: written by `python -m tests.campaigns.families`.

`VERIFIED`: trees and text equal transformers' own. `REFUTED`: they do not, because the network counts its positions or
its windows in another way than a tree needs. All are named in `resources/docs/families.md`.
"""
'''


def verified(rows: Iterable[Verdict]) -> list[str]:
    """The language models that were exact wherever they were found."""
    rows = list(rows)
    wrong = {row.text for row in rows if row.standing is Standing.OPENS}
    return sorted({row.text for row in rows if row.standing is Standing.EXACT} - wrong)


def refuted(rows: Iterable[Verdict]) -> list[str]:
    """The language models that run, but do not compute over a tree what they compute over a path."""
    rows = list(rows)
    return sorted({row.text for row in rows if row.standing is Standing.REFUSED and row.text} - set(verified(rows)))


def write_table(rows: Sequence[Verdict]) -> None:
    """Replace the table in the docs."""
    counts = Counter(row.standing for row in rows)
    told = ", ".join(f"{counts[standing]} {standing.value}" for standing in Standing)
    lines = [f"| {row.family} | {row.text} | {row.standing} | {_cell(row.because)} |\n" for row in rows]
    head = HEAD.format(version=transformers.__version__, counts=f"{len(rows)} families: {told}.")
    TABLE.write_text(head + "".join(lines) + gguf_section(), "utf-8")


def gguf_section() -> str:
    """What stands behind the table: the networks that are read from GGUF files."""
    listed = ", ".join(f"`{name}`" for name in sorted(KNOWN))
    return FOOT.format(architectures=fill(listed, 120, break_on_hyphens=False))


def read_table() -> list[Verdict]:
    """The rows of the table in the docs."""
    cells = [line.strip("| \n").split(" | ") for line in TABLE.read_text("utf-8").splitlines() if line.startswith("| ")]
    return [_verdict(row) for row in cells[1:]]


def write_verified(rows: Iterable[Verdict]) -> None:
    """Replace the sets in the engine."""
    rows = list(rows)
    MODULE.write_text(MODULE_HEAD + _as_set("VERIFIED", verified(rows)) + _as_set("REFUTED", refuted(rows)), "utf-8")


def _as_set(name: str, entries: Iterable[str]) -> str:
    return f"\n{name} = frozenset(\n    {{\n" + "".join(f'        "{entry}",\n' for entry in entries) + "    }\n)\n"


def _verdict(cells: list[str]) -> Verdict:
    family, text, standing, because = [*(cell.strip() for cell in cells), "", ""][:4]
    return Verdict(family, Standing(standing), text, because)


def _cell(text: str) -> str:
    nameless = re.sub(r"<module '([\w.]+)' from '[^']*('>|$)", r"\1", text)  # without the paths of one machine
    return nameless.replace("|", "/").replace("\n", " ")
