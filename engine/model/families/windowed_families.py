"""Families whose layers all see the window that config.json names, where it does not tell kinds of layers."""

from engine.model.families.verified_families import VERIFIED

# By model_type. What others say of a window, as models that were converted from one of these may, changes nothing.
WINDOWED = frozenset(
    {
        "doge",
        "ministral3",
        "mistral",
        "mixtral",
        "phi3",
        "phi4_multimodal",
        "phimoe",
        "qwen3_moe",
        "starcoder2",
    }
)


def heeds_window(family: object) -> bool:
    """Whether networks of this family (its model_type) see no more than that; taken for so where none was tried."""
    return family in WINDOWED or family not in VERIFIED
