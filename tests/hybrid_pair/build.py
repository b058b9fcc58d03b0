"""Trains the hybrid pair: `python -m tests.hybrid_pair.build --folder DIR [--minutes 24] [--stage NAME ...]`.

One thread; minutes of the processor, shared out among the stages. Every stage leaves its result in the folder, so that
a single one can be repeated. On a slower or faster machine the same time reads less or more text. What lies in
`weights` was made so, but `target` and `heads` in two runs each; a rebuild gives a similar pair, not the same bytes.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM

from tests.hybrid_pair.conversion import hybrid_from
from tests.hybrid_pair.corpus import EMBEDDED, Rows, build_corpus
from tests.hybrid_pair.heads import train_heads
from tests.hybrid_pair.training import align, distil, load_model

SHARES = {"align-target": 0.18, "target": 0.32, "align-draft": 0.03, "draft": 0.21, "heads": 0.26}  # of the time
INTERVALS = {"target": 4, "draft": 3}  # every so-and-so-many-th layer is attention
ALIGNING_RATE, TARGET_RATE, DRAFT_RATE, HEADS_RATE = 2e-3, 1e-3, 1.5e-3, 3e-3


def run(stage: str, folder: Path, minutes: float, options: argparse.Namespace) -> None:
    """One stage: from what the earlier ones left in the folder."""
    torch.manual_seed(options.seed)
    if stage == "corpus":
        build_corpus(folder, options.dialogues, options.seed)
        return
    rows = Rows(folder, options.seed + list(SHARES).index(stage))
    name = stage.removeprefix("align-")
    if stage.startswith("align-"):
        donor = embedded(name)
        align(hybrid_from(donor, INTERVALS[name]), donor, rows, folder / name, minutes, ALIGNING_RATE)
    elif stage == "target":
        model, teacher = load_model(folder / "target"), embedded("target")
        distil(model, teacher, rows, folder / "target", minutes, TARGET_RATE, only=("_attn", "norm"))
    elif stage == "draft":
        distil(load_model(folder / "draft"), frozen(folder), rows, folder / "draft", minutes, DRAFT_RATE)
    else:
        train_heads(frozen(folder), rows, folder / "target", minutes, HEADS_RATE)


def embedded(name: str) -> Any:
    """One model of the embedded pair, in float32."""
    model = LlamaForCausalLM.from_pretrained(EMBEDDED[name], dtype=torch.float32)
    return model.requires_grad_(False).eval()


def frozen(folder: Path) -> Any:
    """The trained target."""
    return load_model(folder / "target").requires_grad_(False).eval()


def main() -> None:
    """Run the stages that were asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=24)
    parser.add_argument("--stage", choices=("corpus", *SHARES), action="append", help="only this one; may be repeated")
    parser.add_argument("--dialogues", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    for stage in options.stage or ("corpus", *SHARES):
        print(f"== {stage}", flush=True)
        run(stage, options.folder, options.minutes * SHARES.get(stage, 0), options)


if __name__ == "__main__":
    main()
