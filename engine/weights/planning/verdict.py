"""A plan in a word and in a sentence."""

from typing import Literal

from engine.protocol.sentences import Amount, joined, say
from engine.weights.planning.arrangement import Arrangement, Footprint
from engine.weights.planning.machine import GIB, Room

Verdict = Literal["device", "offload", "ssd", "no"]

PARTS_TOLD = 3
MIB = 1 << 20


def verdict_of(arrangement: Arrangement) -> Verdict:
    """The slowest place that a pass depends on."""
    if arrangement.count("ssd"):
        return "ssd"
    return "offload" if arrangement.count("ram") else "device"


def explain(arrangement: Arrangement, taken: Footprint, room: Room) -> str:
    """Where the layers go; or, where that does not fit, what it would take and what there is."""
    if room.holds(taken.device, taken.ram):
        return _where(arrangement, room)
    device_parts: dict[str, int] = {
        say("layers"): taken.layers,
        say("embeddings and head"): taken.rest,
        say("the context"): taken.kv,
        say("the working space of a pass"): taken.buffers,
        say("the draft"): taken.draft,
        say("layers in transit"): taken.ring,
        say("unpacking"): taken.scratch,
    }
    ram_parts: dict[str, int] = {
        say("layers in RAM"): taken.ram_layers,
        say("layers in transit through RAM"): taken.transit,
    }
    if taken.device > room.device and not (room.shared and room.device == room.ram):
        return _short(say("memory") if room.shared else say("GPU memory"), device_parts, room.device)
    if room.shared:
        return _short(say("memory"), {**device_parts, **ram_parts}, room.ram)
    return _short("RAM", ram_parts, room.ram)


def gib(nbytes: int) -> Amount:
    """Bytes as people say them."""
    return Amount(f"{nbytes / GIB:.1f} GiB" if nbytes >= GIB else f"{nbytes / MIB:.1f} MiB")


def _where(arrangement: Arrangement, room: Room) -> str:
    count, on_ssd = len(arrangement.tiers), arrangement.count("ssd")
    if room.shared:
        if not on_ssd:
            return say("All {count} layers fit in memory.", count=count)
        return say(
            "{kept} of {count} layers stay in memory; {streamed} stream from SSD.",
            kept=count - on_ssd,
            count=count,
            streamed=on_ssd,
        )
    on_device, in_ram = arrangement.count("device"), arrangement.count("ram")
    if on_device == count:
        return say("All {count} layers fit on the GPU.", count=count)
    streams = [
        say("{count} stream from {place}", count=number, place=place)
        for number, place in ((in_ram, "RAM"), (on_ssd, "SSD"))
        if number
    ]
    return say(
        "{kept} of {count} layers stay on the GPU; {streams}.",
        kept=on_device,
        count=count,
        streams=joined(streams, ", "),
    )


def _short(memory: str, parts: dict[str, int], free: int) -> str:
    largest = sorted(parts.items(), key=lambda part: -part[1])[:PARTS_TOLD]
    told = [say("{gib} for {purpose}", gib=gib(nbytes), purpose=purpose) for purpose, nbytes in largest if nbytes]
    return say(
        "{needed} of {memory} would be needed ({parts}), but {free} may be used.",
        needed=gib(sum(parts.values())),
        memory=memory,
        parts=joined(told, ", "),
        free=gib(free),
    )
