"""Which networks multiply with modules of their own: of those, a layer that streams is decoded as a whole."""

from collections.abc import Mapping

# Conv1D, whose weights lie the other way round, and FalconLinear, which adds the bias apart. By model_type.
OWN_MODULES = frozenset({"falcon", "gpt2", "openai-gpt"})


def multiplies_with_linear(config: Mapping[str, object]) -> bool:
    """Whether the matrices of a layer belong to torch's linear modules, which can decode them one at a time."""
    return config.get("model_type") not in OWN_MODULES
