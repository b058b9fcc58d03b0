"""Layers with modules of their own: which are decoded as a whole, and whose experts cannot be had one by one."""

from collections.abc import Mapping

# Conv1D, whose weights lie the other way round, and FalconLinear, which adds the bias apart. By model_type.
OWN_MODULES = frozenset({"falcon", "gpt2", "openai-gpt"})
# By model_type: their modules are not told which experts a pass has chosen, or hold other modules than stacks.
WHOLE = frozenset({"dbrx", "jetmoe", "llama4_text", "longcat_flash"})
# Of these, the ones that multiply every row with all experts.
ALL_MULTIPLIED = frozenset({"llama4_text"})


def multiplies_with_linear(config: Mapping[str, object]) -> bool:
    """Whether the matrices of a layer belong to torch's linear modules, which can decode them one at a time."""
    return config.get("model_type") not in OWN_MODULES


def experts_come_alone(config: Mapping[str, object]) -> bool:
    """Whether experts can be brought, held and multiplied one by one; `config`: of the language model."""
    return config.get("model_type") not in WHOLE


def multiplies_all_experts(config: Mapping[str, object]) -> bool:
    """Whether a row costs the arithmetic of all experts, however few its router has chosen."""
    return config.get("model_type") in ALL_MULTIPLIED
