"""Families, and kinds of some, that cannot hold a tree for a reason that their modules do not tell by themselves."""

from collections.abc import Mapping

from engine.protocol.sentences import say

_ASSISTS = say("it reads the keys and values of the model that it drafts for, and cannot run alone")
_SHARES = say("its layers share weights, and none can be brought without the others")

# By model_type: a clause.
REASONS = {
    "blt": say("it writes bytes in patches, whose bounds follow from all of the text"),
    "gemma4_assistant": _ASSISTS,
    "gemma4_unified_assistant": _ASSISTS,
    "hrm_text": say("it runs the same layers several times for every token"),
    "pi0": say("it plans movements, and writes no text"),
    "zamba": _SHARES,
    "zamba2": _SHARES,
}
# The same of models whose config.json says yes to an entry, or has a number there.
REASONS_OF_KINDS = {
    ("doge", "is_moe"): say("its router mixes the tokens of a pass"),
    ("falcon", "alibi"): say("its positions are biases, which branches do not have"),
    ("minimax", "sliding_window"): say("its layers with attention see a window that is not told of them"),
}


def reason_against(config: Mapping[str, object]) -> str | None:
    """Why a model with this config.json is refused, as a clause; None for those that are not."""
    family = str(config.get("model_type"))
    kinds = REASONS_OF_KINDS.items()
    found = (reason for (kind, key), reason in kinds if kind == family and _is_said(config.get(key)))
    return REASONS.get(family) or next(found, None)


def _is_said(value: object) -> bool:
    return value is True or (type(value) is int and value > 0)
