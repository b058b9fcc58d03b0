"""How layers read the rows of pictures, by the model_type of the whole."""

from collections.abc import Mapping
from types import MappingProxyType

from engine.model.shape import FULL, SLIDING

# In which layers each row of a picture sees all rows of it, by the kind of their spans.
SEE_WHOLE: Mapping[str, frozenset[str]] = MappingProxyType(
    {"gemma3": frozenset({FULL, SLIDING}), "gemma4": frozenset({SLIDING})}
)
# Read a token for padding in place of each row, from a table of every layer; others the one that stands for a row.
AS_PADDING = frozenset({"gemma4"})


def seen_whole(config: Mapping[str, object]) -> frozenset[str]:
    """The kinds of spans in which each row of a picture sees all of it, by what config.json says."""
    kind, text = config.get("model_type"), config.get("text_config")
    own = text if isinstance(text, dict) else {}
    if kind == "gemma4" and own.get("use_bidirectional_attention") != "vision":
        return frozenset()
    return SEE_WHOLE.get(str(kind), frozenset())
