"""Why `auto` grows the trees that it grows, or none, in words for people."""

from engine.protocol.sentences import Amount, opening, say
from engine.speculation.tuning.throughput_model import Plan

CHAIN = 1.25  # nodes a level, at most, of what is rather a chain than a tree


def reason_of(tree: Plan, alone: Plan) -> str:
    """What speaks for the best tree, or for one token per pass."""
    tokens, times = Amount(f"{tree.tokens:.1f}"), Amount(f"{tree.seconds / alone.seconds:.1f}")
    cost = say("{tokens} tokens in {times} times the time of one", tokens=tokens, times=times)
    nodes = say("1 node") if tree.budget == 1 else say("{count} nodes", count=tree.budget)
    if alone.rate <= tree.rate and tree.budget < CHAIN * tree.levels:
        return say("Wider trees do not pay here: a chain of {size} promises {cost}.", size=nodes, cost=cost)
    levels = say("1 level") if round(tree.levels) <= 1 else say("{count} levels", count=round(tree.levels))
    size = say("{nodes}, {levels} deep ({method})", nodes=nodes, levels=levels, method=tree.method)
    if alone.rate <= tree.rate:
        return say("{size} promise {cost}.", size=opening(size), cost=cost)
    best = {"size": size, "cost": cost}
    return say("A tree does not pay here: the best, {size}, would give {cost}; so one token per pass.", **best)
