"""Made-up sessions for tests, pictures and benchmarks of the telemetry: rounds that look like an engine's."""

import math
from array import array
from random import Random

from engine.protocol.messages import Loaded, ModelInfo, Round, Seconds, Tree
from engine.protocol.residence import Holding, Residence

GIB = 1 << 30


def round_of(
    index: int,
    parents: tuple[int, ...] = (-1, 0, 0),
    log_probs: tuple[float, ...] = (0.0, -0.1, -2.5),
    accepted: tuple[int, ...] = (0, 1),
    *,
    request: int = 2,
    seconds: Seconds | None = None,
    bytes_streamed: int = 0,
) -> Round:
    """One round over this tree; every accepted node and the bonus token make the answer longer."""
    tree = Tree(
        tokens=array("i", [1] * len(parents)).tobytes(),
        parents=array("i", parents).tobytes(),
        log_probs=array("f", log_probs).tobytes(),
        pieces=("x",) * len(parents),
    )
    spent = seconds or Seconds(draft=0.002, target=0.006, other=0.001, decode=0.009)
    return Round(
        id=request,
        index=index,
        tree=tree,
        accepted=accepted,
        bonus=4,
        bonus_piece="",
        new_tokens=len(accepted),
        text="",
        seconds=spent,
        bytes_streamed=bytes_streamed,
    )


def made_up_round(index: int, random: Random, *, nodes: int = 32, streams: bool = True, request: int = 2) -> Round:
    """A round of a draft that is a little too sure of itself, with layers that come over a link."""
    parents, log_probs, depths = [-1], [0.0], [0]
    while len(parents) <= nodes:
        parent = max(random.randrange(len(parents)) for _ in range(2)) if random.random() < 0.7 else 0
        parents.append(parent)
        log_probs.append(log_probs[parent] + math.log(random.betavariate(0.6, 0.9) * 0.98 + 0.01))
        depths.append(depths[parent] + 1)
    path = [0]
    for node in range(1, len(parents)):
        if parents[node] == path[-1] and random.random() < 0.85 * math.exp(log_probs[node] - log_probs[path[-1]]):
            path.append(node)
    drift = 1 + 0.3 * math.sin(index / 40)
    draft, hidden, wait, compute, other = (drift * random.gauss(mean, mean / 8) for mean in (8, 6, 30, 22, 3))
    if random.random() < 0.02:
        wait *= 3
    if not streams:
        hidden = wait = 0.0
    target = hidden + wait + compute
    spent = Seconds(
        draft=draft / 1e3,
        target=target / 1e3,
        other=other / 1e3,
        decode=(draft + target + other) / 1e3,
        hidden_draft=hidden / 1e3,
        stream_wait=wait / 1e3,
    )
    return round_of(
        index,
        tuple(parents),
        tuple(log_probs),
        tuple(path),
        request=request,
        seconds=spent,
        bytes_streamed=int(1.1e9 * random.uniform(0.85, 1.0)) if streams else 0,
    )


def loaded(tiers: tuple[str, ...] = ("device", "ram", "ram", "ssd") * 12, *, shared: bool = False) -> Loaded:
    """A pair whose target lies in these places."""
    model = ModelInfo("big", "big-70b", "llama", 70_000_000_000, len(tiers), 140_000_000_000, "nf4", "cuda:0")
    count = {tier: tiers.count(tier) for tier in ("device", "ram", "ssd")}
    residence = Residence(
        layer_bytes=(GIB // 2,) * len(tiers),
        device=Holding(count["device"] * GIB // 2 + 5 * GIB, 22 * GIB),
        ram=Holding((count["ram"] + count["device"] * shared) * GIB // 2 + 2 * GIB, 58 * GIB),
        shared=shared,
        stream_bytes_per_second=1.9e10,
    )
    return Loaded(1, model, model, 8192, 3.0, tiers, residence)
