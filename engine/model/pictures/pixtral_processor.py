"""The processor of Pixtral and of Mistral's models: transformers' own is there with torchvision alone.

A picture is written row by row, with a token that ends each row and another one that ends the picture.
"""

from collections.abc import Mapping
from typing import Any

import torch
from PIL import Image
from torch import Tensor

NAME = "PixtralProcessor"
PATCH, MERGED = 16, 1  # pixels of a side, and patches that become one token, where nothing is said


class PixtralProcessor:
    """See `engine.model.pictures.processors.PictureProcessor`, whose place it takes."""

    def __init__(self, pictures: Any, settings: Mapping[str, Any]) -> None:
        """`pictures`: transformers' processor of the pictures alone; `settings`: those of the model's processors."""
        self._pictures = pictures
        patch, merged = settings.get("patch_size"), settings.get("spatial_merge_size")
        self._side = (patch if isinstance(patch, int) else PATCH) * (merged if isinstance(merged, int) else MERGED)
        if self._side < 1:
            raise ValueError("patches without a size")
        self.mark = str(settings.get("image_token") or "[IMG]")
        self._row_end = str(settings.get("image_break_token") or "[IMG_BREAK]")
        self._end = str(settings.get("image_end_token") or "[IMG_END]")

    def read(self, picture: Image.Image) -> tuple[str, dict[str, Tensor]]:
        """What stands in the text in place of the mark, and what the encoder takes. Raises what libraries raise."""
        sides = {"height": self._side, "width": self._side}
        made = self._pictures(images=[picture], patch_size=sides, return_tensors="np")
        height, width = (int(side) // self._side for side in made["image_sizes"][0])
        row = self.mark * width + self._row_end
        text = (row * height).removesuffix(self._row_end) + self._end
        return text, {name: torch.from_numpy(value) for name, value in made.items()}
