"""A model of five tiny layers to prepare, and what can be done to its files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.errors import Cancellation
from engine.weights.store.manifest import NAME, Recipe
from engine.weights.store.prepare import PrepareProgress, Work, prepare
from engine.weights.store.prepared_model import layer_path, open_prepared, verify
from tests.links import make_link

LAYERS = 5


def layer(index: int) -> dict[str, Tensor]:
    """The stored tensors of one layer."""
    generator = torch.Generator().manual_seed(index)
    return {"mlp.weight": torch.randn(64, 32, generator=generator), "norm.weight": torch.randn(32, generator=generator)}


class Maker:
    """Makes layers, and remembers which."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.state = "as it was"

    def make(self, index: int) -> dict[str, Tensor]:
        """See `Work.make`."""
        self.made.append(index)
        return layer(index)

    def work(self, **changes: Any) -> Work:
        """All layers, by a recipe that may be changed."""
        recipe = Recipe("org/tiny", "/models/tiny", "as it was", "plain", "float32", LAYERS)
        outline = {name: tensor.to("meta") for name, tensor in layer(0).items()}
        recipe = replace(recipe, **changes)
        return Work(recipe, [outline] * LAYERS, self.make, lambda: self.state)


def run(folder: Path, work: Work, layers: int = LAYERS) -> list[PrepareProgress]:
    """Prepare as far as `layers`, then stop as somebody does who goes away."""
    progress = []
    for step in prepare(folder, work, Cancellation()):
        progress.append(step)
        if len(progress) == layers:
            break
    return progress


def finish(folder: Path, work: Work) -> list[PrepareProgress]:
    """Prepare to the end."""
    return list(prepare(folder, work, Cancellation()))


def assert_whole(folder: Path) -> None:
    """Everything is there, as it was written, and nothing else is."""
    prepared = open_prepared(folder)
    assert list(verify(prepared, Cancellation())) == list(range(LAYERS))
    for index, layout in enumerate(prepared.layouts()):
        assert layout.index == index
        assert {entry.name for entry in layout.tensors} == {"mlp.weight", "norm.weight"}
    names = {path.name for path in folder.iterdir()}
    assert names == {NAME, *(layer_path(folder, index).name for index in range(LAYERS))}


def truncate(path: Path) -> None:
    """Cut the last byte off."""
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    """Flip the last bit."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def link(path: Path) -> None:
    """Put a link to the file in its place."""
    path.rename(path.with_name("elsewhere"))
    make_link(path, "elsewhere")
