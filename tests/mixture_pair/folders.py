"""A complete model folder of the mixture: its weights, and the embedded pair's tokenizer and chat template."""

import shutil
from pathlib import Path

from tests.hybrid_pair.folders import TOKENIZER, TOKENIZER_FILES

WEIGHTS = Path(__file__).parent / "weights"


def assemble(folder: Path, weights: Path = WEIGHTS) -> Path:
    """Make `folder` one that can be opened, of what `build` has left in `weights`; returns it."""
    shutil.copytree(weights, folder)
    for file in TOKENIZER_FILES:
        shutil.copyfile(TOKENIZER / file, folder / file)
    return folder
