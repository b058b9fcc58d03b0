"""Which embeddings and heads may stay as a checkpoint packs them."""

from collections.abc import Mapping

from engine.model.assembly import Source
from engine.model.formats.packed import PackedWeight
from engine.model.products.layouts import BLOCKS, UNIT
from engine.model.products.product import SMALLEST

EMBEDDINGS, HEAD = ("embed_tokens.weight", ".embeddings.weight"), "lm_head.weight"


def may_stay(name: str, weight: Source) -> bool:
    """Whether a weight of this name is such a table, in blocks that loops multiply with."""
    if not isinstance(weight, PackedWeight) or not name.endswith((*EMBEDDINGS, HEAD)) or len(weight.shape) != 2:
        return False
    return weight.format.name in BLOCKS and weight.shape[1] % UNIT == 0 and weight.elements >= SMALLEST


def saved_bytes(weights: Mapping[str, Source], itemsize: int, is_tied: bool) -> int:
    """How much less tables take that stay packed than decoded ones of so many bytes a number."""
    kept = {name: weight for name, weight in weights.items() if may_stay(name, weight)}
    if is_tied and any(name.endswith(EMBEDDINGS) for name in weights):
        kept = {name: weight for name, weight in kept.items() if not name.endswith(HEAD)}
    return sum(weight.elements * itemsize - weight.nbytes for weight in kept.values())
