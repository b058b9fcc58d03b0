"""A target of full size that no memory here holds: Coppice beside llama.cpp, one after the other, on the same file.

python -m tests.bench.full_size --files DIR-ON-A-REAL-DISK [--shape 70b|30b|30b-a3b|106b-a12b] [--kind Q4_0]
    [--turns 2] [--tokens 64] [--sizes none,16,auto] [--chains none,8] [--threads 2]

The target is the embedded one in the shape of Llama 3 70B or Llama 30B, see `tests.bench.grown`, or the trained mixture
in that of Qwen3 30B A3B or GLM 4.5 Air, see `tests.bench.full_size_mixture`: it writes the same text, and has as much
to read and to compute as its size says. `DIR/SHAPE-KIND/target.gguf` is written first if it is missing: 39 GB for 70b
in Q4_0. Each program has the machine to itself, with all the memory that is free and an empty page cache, and answers
the same prompts greedily; the first, which is short, warms it up. `sizes`: of Coppice's trees; `chains`: of
llama.cpp's, which maps the file, but for `--in-memory`. Needs `pip install xllamacpp`.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from engine.cli.bench import PROMPTS, read_prompts
from engine.cli.contenders import forget
from engine.cli.progress import say
from engine.text.tokenizer import Tokenizer
from tests.bench.full_size_file import FullSize, grown_llama, grown_mixture, write_full_size
from tests.bench.full_size_mixture import MIXTURES
from tests.bench.grown import SHAPES
from tests.bench.inflate import EMBEDDED
from tests.bench.peer_files import Files
from tests.bench.peers_table import PEER, machine, same_text
from tests.bench.programs import NONE, Asked, Setup, Turn

PLAIN_TOKENS = 4  # of who writes one token a pass, from disk: its passes are all alike
WARM_UP_TOKENS = 2


def main() -> None:
    """Measure, and print a table."""
    arguments = _parser().parse_args()
    folder = arguments.files / f"{arguments.shape}-{arguments.kind}"
    target = folder / "target.gguf"
    if not target.exists():
        write_full_size(target, _model(arguments.shape), arguments.kind)
    draft = Files(folder, arguments.shape, 0).draft
    tokenizer = Tokenizer.open(EMBEDDED)
    prompts = [tokenizer.encode_chat(chat) for chat in read_prompts(str(PROMPTS), arguments.turns + 1)]
    asked = [(PEER, size) for size in arguments.chains.split(",")]
    asked += [("Coppice", size) for size in arguments.sizes.split(",")]
    told = machine(arguments.threads, "auto", f"{arguments.shape} in {arguments.kind}")
    print(f"{told['processor']}, {told['threads']} threads; {target.stat().st_size / 1e9:.1f} GB\n")
    print("| who | drafts | tokens/s | tokens per pass | s per pass | tokens of prompts per second |")
    print("|---|---|--:|--:|--:|--:|")
    texts: dict[int, tuple[int, ...]] = {}
    place = "device" if arguments.in_memory else "auto"
    with tempfile.TemporaryDirectory(dir=arguments.files) as scratch:
        for program, size in asked:
            setup = Setup(
                program, str(target), str(draft), size, place, "auto", scratch, arguments.threads, is_tight=False
            )
            turns = list(_answers(setup, prompts, arguments.tokens, Path(scratch)))
            print(_line(setup, turns), flush=True)
            _compare(setup, turns, texts)


def _model(shape: str) -> FullSize:
    return grown_llama(SHAPES[shape]) if shape in SHAPES else grown_mixture(MIXTURES[shape])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=Path, required=True, help="where the files lie, or are left for the next run")
    parser.add_argument("--shape", choices=(*SHAPES, *MIXTURES), default="70b")
    parser.add_argument("--kind", default="Q4_0")
    parser.add_argument("--in-memory", action="store_true", help="the target fits there, and may be brought in order")
    parser.add_argument("--turns", type=int, default=2, help="prompts, each answered by all")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--sizes", default="none,16,auto", help="of Coppice's trees")
    parser.add_argument("--chains", default="none,8", help="of llama.cpp's drafts; may be none alone")
    parser.add_argument("--threads", type=int, default=2)
    return parser


def _answers(setup: Setup, prompts: list[list[int]], tokens: int, scratch: Path) -> Iterator[Turn]:
    """To every prompt but the first."""
    forget(Path(setup.model).parent)
    asked = Asked(setup, [], scratch / "errors.txt")
    try:
        asked.answer(prompts[0], WARM_UP_TOKENS)
        for prompt in prompts[1:]:
            is_slow = setup.size == NONE and setup.place == "auto"
            yield asked.answer(prompt, PLAIN_TOKENS if is_slow else tokens)
            say(f"{setup.program}, {setup.size}: answered")
    finally:
        asked.close()


def _line(setup: Setup, turns: list[Turn]) -> str:
    counted, passes = sum(turn.counted for turn in turns), sum(turn.passes for turn in turns)
    seconds, read = sum(turn.seconds for turn in turns), sum(turn.read for turn in turns)
    read_seconds = sum(turn.read_seconds for turn in turns)
    figures = f"{counted / seconds:.3f} | {counted / passes:.1f} | {seconds / passes:.2f} | {read / read_seconds:.2f}"
    return f"| {setup.program} | {setup.size} | {figures} |"


def _compare(setup: Setup, turns: list[Turn], texts: dict[int, tuple[int, ...]]) -> None:
    """Say where a text is not the one that was written first, as far as both go."""
    for number, turn in enumerate(turns):
        first = texts.setdefault(number, turn.tokens)
        if not same_text(first, turn.tokens):
            say(f"{setup.program}, {setup.size}: another text behind prompt {number + 1}")
        texts[number] = max(first, turn.tokens, key=len)


if __name__ == "__main__":
    main()
