"""What the library knows of a language model's weights only by the kind of the wrapper that they are stored in."""

from typing import Any

from transformers.conversion_mapping import get_checkpoint_conversion_mapping
from transformers.core_model_loading import WeightRenaming

# By model_type. Of all other wrappers the language model's weights are called as if it had been published alone.
WRAPPERS = frozenset({"cosmos3_edge", "ernie4_5_vl_moe", "minimax_m3_vl", "mistral_large4", "step3p7"})
INSIDE, ALONE = r"^model\.language_model\.", "model."


def transforms_of_wrapper(kind: object) -> list[Any]:
    """How the library renames and stacks the weights of a wrapper of this model_type, to what its decoder calls them.

    Empty for a kind whose language model needs nothing of it. Made anew each time, as the library's own are.
    """
    if kind not in WRAPPERS:
        return []
    return [*(get_checkpoint_conversion_mapping(kind) or ()), WeightRenaming(INSIDE, ALONE)]
