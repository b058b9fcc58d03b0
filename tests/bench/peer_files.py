"""The models that programs are compared on: the embedded pair or the trained mixture, grown, as GGUF files."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from engine.cli.progress import say
from tests.bench.grown import HEAD_DIM, OWN_LAYERS, Shape, grow
from tests.bench.grown_mixture import grow_mixture, shape_of
from tests.bench.inflate import EMBEDDED, inflate

DRAFT = EMBEDDED.parent / "demo-draft"
LLAMAS = (Shape(22, 2048, 5632, 4), Shape(22, 1024, 2816, 4))  # TinyLlama's proportions, and half of its width


@dataclass(frozen=True, slots=True)
class Files:
    """Files in `folder`, written when they are first asked for, of a shape and so many bytes in bfloat16."""

    folder: Path
    shape: str
    gigabytes: float

    @property
    def model(self) -> Path:
        """The target as a folder of safetensors."""
        folder = self.folder / "model"
        if not folder.exists():
            grown(folder, self.shape, self.gigabytes)
        return folder

    @property
    def draft(self) -> Path:
        """The embedded draft."""
        path = self.folder / "draft-BF16.gguf"
        return path if path.exists() else _write_gguf(DRAFT, path, "BF16")

    def target(self, kind: str) -> Path:
        """The target in blocks of a type of GGUF files."""
        path = self.folder / kind / "target.gguf"
        return path if path.exists() else _write_gguf(self.model, path, kind)

    def write_all(self, kinds: Iterable[str]) -> None:
        """Write what is missing."""
        for path in (self.draft, *map(self.target, kinds)):
            say(f"{path}: {path.stat().st_size / 1e9:.2f} GB")


def grown(folder: Path, shape: str, gigabytes: float) -> Path:
    """Write a target of so many bytes in bfloat16 to `folder`; returns `folder`."""
    if shape == "inflated":
        return inflate(folder, int(gigabytes * 1e9))
    elements = gigabytes * 1e9 / 2
    if shape == "mixture":
        return grow_mixture(folder, shape_of(elements))
    llama = next((llama for llama in LLAMAS if OWN_LAYERS * _layer_elements(llama) <= elements), LLAMAS[-1])
    layers = max(OWN_LAYERS, round(elements / _layer_elements(llama)))
    return grow(folder, replace(llama, layers=layers), noise=True)


def _layer_elements(shape: Shape) -> int:
    return 2 * shape.hidden * (shape.heads + shape.kv_heads) * HEAD_DIM + 3 * shape.hidden * shape.inner


def _write_gguf(folder: Path, path: Path, kind: str) -> Path:
    import torch
    import transformers

    from tests.engine.gguf_files import write_gguf

    say(f"writing {path.name} in {kind}")
    path.parent.mkdir(parents=True, exist_ok=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    half = path.with_suffix(".part")
    write_gguf(half, model, kind, tokenizer=EMBEDDED)
    return half.replace(path)
