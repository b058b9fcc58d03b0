"""Complete model folders of the hybrid pair: its weights, and the embedded pair's tokenizer and chat template."""

import shutil
from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"
TOKENIZER = Path(__file__).parents[2] / "resources" / "models" / "demo-target"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")


def assemble(folder: Path, weights: Path = WEIGHTS) -> dict[str, Path]:
    """Folders of `target` and `draft` that can be opened, made of what `build` has left in `weights`."""
    for name in ("target", "draft"):
        shutil.copytree(weights / name, folder / name)
        for file in TOKENIZER_FILES:
            shutil.copyfile(TOKENIZER / file, folder / name / file)
    return {name: folder / name for name in ("target", "draft")}
