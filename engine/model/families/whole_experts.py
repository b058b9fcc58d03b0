"""Which mixtures have experts that a layer cannot be given one by one: they stream, and lie in memory, as a whole."""

from collections.abc import Mapping

# By model_type: their modules are not told which experts a pass has chosen, or hold other modules than stacks.
WHOLE = frozenset({"dbrx", "jetmoe", "llama4_text", "longcat_flash"})
# Of these, the ones that multiply every row with all experts.
ALL_MULTIPLIED = frozenset({"llama4_text"})


def experts_come_alone(config: Mapping[str, object]) -> bool:
    """Whether experts can be brought, held and multiplied one by one; `config`: of the language model."""
    return config.get("model_type") not in WHOLE


def multiplies_all_experts(config: Mapping[str, object]) -> bool:
    """Whether a row costs the arithmetic of all experts, however few its router has chosen."""
    return config.get("model_type") in ALL_MULTIPLIED
