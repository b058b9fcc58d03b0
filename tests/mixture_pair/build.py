"""Makes the mixture: `python -m tests.mixture_pair.build --folder DIR [--minutes 8] [--stage NAME ...]`.

`corpus` writes the text. `split` makes a mixture of the embedded target and fits its routers. `target` trains all of it
on the embedded target's distributions, for so many minutes of the processor, with one thread; asked for again, it goes
on. `report` prints how far it is from the embedded target, and how skewed its routers are. What lies in `weights` was
saved by `target` after 4 of `--minutes 7`, 285 steps or so. A rebuild gives a similar mixture, not the same bytes.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Glm4MoeForCausalLM

from tests.hybrid_pair.build import embedded
from tests.hybrid_pair.corpus import Rows, build_corpus
from tests.hybrid_pair.training import distil, divergence, save_model
from tests.mixture_pair.conversion import EXPERTS, mixture_from
from tests.mixture_pair.routing import GROUPS, Gates, distinct_of_groups, share_of_most_used

STAGES = ("corpus", "split", "target", "report")
SPLIT_BATCHES = 3  # that tell which units are active together
RATE = 3e-4  # low: what was split writes nearly its donor's text already
BALANCE = 1e-3  # what imbalance counts in the loss: so little that routing stays skewed


def run(stage: str, folder: Path, options: argparse.Namespace) -> None:
    """One stage: from what the earlier ones left in the folder."""
    torch.manual_seed(options.seed)
    if stage == "corpus":
        build_corpus(folder, options.dialogues, options.seed)
        return
    rows, donor, output = Rows(folder, options.seed + STAGES.index(stage)), embedded("target"), folder / "target"
    if stage == "split":
        save_model(mixture_from(donor, [rows.batch()[0] for _ in range(SPLIT_BATCHES)]), output)
        return
    model = Glm4MoeForCausalLM.from_pretrained(output, dtype=torch.float32)
    if stage == "target":
        gates = Gates(model)
        distil(model, donor, rows, output, options.minutes, RATE, penalty=lambda: BALANCE * gates.imbalance())
    else:
        report(model, donor, *rows.batch())


@torch.no_grad()
def report(model: Any, donor: Any, ids: Tensor, weights: Tensor) -> None:
    """Print what `ids` [rows, length] show; `weights`: what the token behind each counts."""
    gates = Gates(model)
    wanted = torch.softmax(donor(ids, use_cache=False).logits, -1)
    found = torch.log_softmax(model(ids, use_cache=False).logits, -1)
    same = ((found.argmax(-1) == wanted.argmax(-1)) * weights).sum() / weights.sum()
    print(f"divergence {divergence(found, wanted, weights):.4f} nats, the same likeliest token {same:.1%}")
    print(f"most used quarter of {EXPERTS} experts, then different ones for {GROUPS} tokens in a row")
    for choice in gates.choices:
        distinct = " ".join(f"{distinct_of_groups(choice, size):6.1f}" for size in GROUPS)
        print(f"{share_of_most_used(choice, EXPERTS):4.0%} {distinct}")


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
