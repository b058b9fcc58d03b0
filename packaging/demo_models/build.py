"""Builds the embedded pair: `python packaging/demo_models/build.py --work FOLDER`, about an hour on two CPU cores.

Every stage leaves its result in the work folder, so that a single one can be repeated with --stage.
"""

import argparse
import shutil
from pathlib import Path

from corpus import build_corpus, build_review
from generate import write_generated
from train import DRAFT, TARGET, review, train

HERE = Path(__file__).parent
MODELS = HERE.parent.parent / "resources" / "models"
STAGES = ("corpus", "target", "review", "generate", "draft", "install")


def install(work: Path) -> None:
    """Copy both models and their cards to where the application looks for them."""
    for name in ("target", "draft"):
        folder = MODELS / f"demo-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(work / name, folder)
        shutil.copyfile(HERE / "cards" / f"{name}.md", folder / "README.md")


def run(stage: str, options: argparse.Namespace) -> None:
    work: Path = options.work
    if stage == "corpus":
        build_corpus(work, options.dialogues)
    elif stage == "target":
        train(TARGET, work, work / "target", minutes=options.target_minutes, threads=options.threads)
    elif stage == "review":
        build_review(work, options.dialogues // 10)
        review(work, work / "target", minutes=options.review_minutes, threads=options.threads)
    elif stage == "generate":
        write_generated(work / "target", work, minutes=options.generate_minutes, threads=options.threads)
    elif stage == "draft":
        minutes, teacher = options.draft_minutes, work / "target"
        train(DRAFT, work, work / "draft", minutes=minutes, threads=options.threads, teacher=teacher)
    else:
        install(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for tokens, checkpoints and results")
    parser.add_argument("--stage", choices=STAGES, action="append", help="only this stage; may be repeated")
    parser.add_argument("--dialogues", type=int, default=140_000)
    parser.add_argument("--target-minutes", type=float, default=46)
    parser.add_argument("--review-minutes", type=float, default=10)
    parser.add_argument("--draft-minutes", type=float, default=14)
    parser.add_argument("--generate-minutes", type=float, default=6)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for stage in options.stage or STAGES:
        print(f"== {stage}", flush=True)
        run(stage, options)


if __name__ == "__main__":
    main()
