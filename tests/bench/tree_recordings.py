"""Makes the ten recorded rounds of `tests/app/tree/recorded.py`: the trees on which the panel's layout is judged.

python -m tests.bench.tree_recordings [--to tests/app/tree/recordings/rounds.coppice]

Six are the embedded pair's own, greedy, of an easy and a hard text and of four sizes. It knows no right-to-left text,
Chinese, code or emoji: of those, four have the shapes and probabilities of its trees, and texts that are made up.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from tests.app.tree.recorded import RECORDING

EASY, HARD = "Tell me a story about a dragon.", "What is seven plus eight? Count backwards from 99, in rhymes."
_TOKENS = 60
_OWN = (  # text, nodes, and which rounds of its answer may be taken: the first that is of this size and accepts so many
    (EASY, 16, range(8, 99)),
    (HARD, 16, range(4)),
    (EASY, 64, range(12, 99)),
    (HARD, 64, range(4)),
    (EASY, 256, range(12, 99)),
    (HARD, 1024, range(99)),
)
_FOREIGN = (
    "في|قديم|الزمان|كان|هناك|تنين|صغير|يعيش|على|جبل|בית|ספר|שלום|עולם|،|.",
    "很久|以前|，|有|一条|小|龙|住在|山|上|。|むかし|むかし|、|山|に|竜|が|いました|。",
    "def| area|(|radius|):|\n|    |return| math|.|pi| *| radius|**|2|\n\n|class| Dragon|:|\t|self|.|name| =| None|#",
    "🐉|🔥|👩‍👩‍👧‍👦|🏳️‍🌈|🇩🇪|👍🏽|✨| dragon|😀|🗺️|1️⃣|❤️‍🔥|!| 🏰|🧑‍🚀| and",
)


def main() -> None:
    """Ask the pair, make up the others, and write the recording."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=RECORDING)
    options = parser.parse_args()
    own = [_round(*wanted) for wanted in _OWN]
    shapes = cycle((own[3], own[2]))
    foreign = [_in_words(next(shapes), words.split("|")) for words in _FOREIGN]
    options.to.parent.mkdir(parents=True, exist_ok=True)
    with options.to.open("w", encoding="utf-8") as file:
        for index, line in enumerate([*own, *foreign]):
            slim = {**line, "round": index, "log_probs": [round(value, 3) for value in line["log_probs"]]}
            del slim["depths"]
            file.write(json.dumps(slim, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{len(own) + len(foreign)} rounds, {options.to.stat().st_size / 1e3:.0f} kB in {options.to}")


def _round(prompt: str, nodes: int, accepted: range) -> dict[str, Any]:
    """A round of the embedded pair's answer, as `--trace` writes it."""
    rounds = [line for line in _trace(prompt, nodes) if len(line["tokens"]) == nodes + 1]
    return next((line for line in rounds if len(line["accepted"]) - 1 in accepted), rounds[0])


def _trace(prompt: str, nodes: int) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.jsonl"
        answering = [sys.executable, "-m", "engine", "generate"]
        asked = ["--target", "embedded", "--prompt", prompt, "--method", "specexec", "--budget", str(nodes)]
        written = ["--max-new-tokens", str(_TOKENS), "--trace", str(trace), "--json"]
        subprocess.run([*answering, *asked, *written], check=True, stdout=subprocess.DEVNULL)
        yield from map(json.loads, trace.read_text(encoding="utf-8").splitlines())


def _in_words(shape: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """A tree of the same shape whose tokens are these words: siblings differ, and the path reads in their order."""
    depths, tokens, children = shape["depths"], [0], [0] * len(shape["tokens"])
    for node, parent in enumerate(shape["parents"][1:], start=1):
        children[parent] += 1
        other = 0 if node in shape["accepted"] else 3
        tokens.append((depths[node] + 5 * (children[parent] - 1) + other) % len(words))
    bonus = (len(shape["accepted"]) + 1) % len(words)
    pieces = [words[token] for token in tokens]
    return {**shape, "tokens": tokens, "pieces": pieces, "bonus": bonus, "bonus_piece": words[bonus]}


if __name__ == "__main__":
    main()
