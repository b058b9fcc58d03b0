"""Files of tensors in tests."""

from pathlib import Path

import torch
from safetensors.torch import load


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """All of a file's tensors, read into memory: a file that is mapped cannot be written again on Windows."""
    tensors: dict[str, torch.Tensor] = load(path.read_bytes())
    return tensors
