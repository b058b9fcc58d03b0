"""Makes the mixture: `python -m tests.mixture_pair.build --folder DIR [--minutes 8] [--stage NAME ...]`.

`corpus` writes the text, `split` makes a mixture of the embedded target and fits its routers, and `target` trains all of
it on the embedded target's distributions, for so many minutes of the processor, with one thread; asked for again, it goes
on. What lies in `weights` is of `corpus` and `split`. A rebuild gives a similar mixture, not the same bytes.
"""

import argparse
from pathlib import Path

import torch
from transformers import Glm4MoeForCausalLM

from tests.hybrid_pair.build import embedded
from tests.hybrid_pair.corpus import Rows, build_corpus
from tests.hybrid_pair.training import distil, save_model
from tests.mixture_pair.conversion import mixture_from

STAGES = ("corpus", "split", "target")
SPLIT_BATCHES = 3  # that tell which units are active together
RATE = 2e-4  # low: what was split writes nearly its donor's text already


def run(stage: str, folder: Path, options: argparse.Namespace) -> None:
    """One stage: from what the earlier ones left in the folder."""
    torch.manual_seed(options.seed)
    if stage == "corpus":
        build_corpus(folder, options.dialogues, options.seed)
        return
    rows, donor, output = Rows(folder, options.seed + STAGES.index(stage)), embedded("target"), folder / "target"
    if stage == "split":
        save_model(mixture_from(donor, [rows.batch()[0] for _ in range(SPLIT_BATCHES)]), output)
    else:
        model = Glm4MoeForCausalLM.from_pretrained(output, dtype=torch.float32)
        distil(model, donor, rows, output, options.minutes, RATE)


def main() -> None:
    """Run the stages that were asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--stage", choices=STAGES, action="append", help="only this one; may be repeated")
    parser.add_argument("--dialogues", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    for stage in options.stage or STAGES:
        print(f"== {stage}", flush=True)
        run(stage, options.folder, options)


if __name__ == "__main__":
    main()
