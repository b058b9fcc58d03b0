"""Families that cannot hold a tree for a reason that neither their config.json nor their modules tell by themselves."""

from engine.protocol.sentences import say

_POOLS = say("its indexer pools the keys of neighbouring cache slots, which need not be on one path")
_ASSISTS = say("it reads the keys and values of the model that it drafts for, and cannot run alone")
_SHARES = say("its layers share weights, and none can be brought without the others")

# By model_type: a clause.
REASONS = {
    "blt": say("it writes bytes in patches, whose bounds follow from all of the text"),
    "gemma4_assistant": _ASSISTS,
    "gemma4_unified_assistant": _ASSISTS,
    "glm5_next": _POOLS,
    "glm5_next_text": _POOLS,
    "hrm_text": say("it runs the same layers several times for every token"),
    "pi0": say("it plans movements, and writes no text"),
    "zamba": _SHARES,
    "zamba2": _SHARES,
}
