"""How much of the device a mixture's single experts are given: from what the layers leave free, and never instead."""

from dataclasses import replace

from engine.weights.planning.arrangement import Arrangement, Footprint
from engine.weights.planning.machine import Room
from engine.weights.planning.needs import ModelNeeds

LEAST_PART = 8  # a cache smaller than this fraction of a layer's experts is not worth its memory


def with_experts(taken: Footprint, target: ModelNeeds, arrangement: Arrangement, room: Room) -> Footprint:
    """What an arrangement takes, with an expert cache in half of what it leaves free on the device.

    Where experts run as they are stored, a stack as large as those of one layer stands beside the cache; elsewhere they
    are decoded into the scratch layer, which is there anyway. The cache never outgrows the experts that stream.
    """
    moving = [
        layer.expert_bytes
        for layer, tier in zip(target.layers, arrangement.tiers, strict=True)
        if tier == "ssd" or (tier == "ram" and not room.shared)
    ]
    largest = max(moving, default=0)
    if not largest or arrangement.ready:
        return taken
    left = room.device - taken.device
    if room.shared:
        left = min(left, room.ram - room.ram_taken(taken.device, taken.ram))
    stack = largest if target.codec == "plain" else 0
    cache = min(sum(moving), left // 2 - stack)
    return replace(taken, expert_cache=cache, expert_stack=stack) if cache * LEAST_PART >= largest else taken
