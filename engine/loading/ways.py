"""Finds out for a pair of checkpoints in which ways it could run on this machine, and what each would give."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from engine.loading.measurements.arithmetic import recall_arithmetic
from engine.loading.measurements.benchmark import benchmark_of
from engine.loading.pair import PairIdentity
from engine.loading.planning import Question, case_of, needs_of, tree_yields, with_kv
from engine.loading.preparation import COMPRESSED
from engine.loading.rates import question_for, recall_measured
from engine.loading.store import cache_root
from engine.model.checkpoint import Checkpoint
from engine.model.shape import model_sizes
from engine.weights.planning.advice import Basis, Told, told, verdict_of
from engine.weights.planning.machine import Memory, Rates, all_memory
from engine.weights.planning.needs import ModelNeeds
from engine.weights.planning.placement import Plan
from engine.weights.planning.seen import Seen
from engine.weights.planning.usual_rates import usual_rates
from engine.weights.planning.ways import PAYS, SMALL, Case, Ways, counts_of, largest_kept, ways_of, without_copies

FORMATS: tuple[Literal["int8", "nf4"], ...] = ("int8", "nf4")  # that Coppice makes by itself, at their numbers of bits
FEWER = 0.8  # times the bytes that are read now, from which another format is worth what it rounds


def told_ways(
    target: Checkpoint, draft: Checkpoint | None, device: torch.device, question: Question, found: Plan, cache: Path
) -> Told:
    """Every way of the pair in figures and in sentences; reads no weights, and measures nothing.

    `found`: the plan for the question; `cache`: the folder where measurements are kept. Raises as `plan_pair` does.
    """
    limits = question.override
    seen = question.seen if question.seen and question.seen.tiers == counts_of(found) else None
    return told(
        ways_for(target, draft, device, question, found, cache),
        Basis(
            is_measured=question.rates is not None,
            has_learned=bool(question.trees),
            is_given=bool(question.tokens_per_pass),
            is_limited=limits.ram_limit is not None or limits.vram_limit is not None,
            has_gpu=not found.room.shared,
            fits=found.verdict != "no",
            recent=question.recent,
            has_seen=bool(seen),
            given=seen.given if seen else None,
        ),
    )


def small_trees(pair: PairIdentity, device: torch.device, found: Plan) -> str:
    """Why trees are small for a pair that is loaded as planned; empty where larger ones promise more, or none are."""
    room = found.room
    memory = Memory(room.ram, vram_free=room.device, has_gpu=not room.shared)
    arithmetic = recall_arithmetic(pair.options, device)
    cache = cache_root(pair.options)
    question = question_for(pair, recall_measured(pair, device, arithmetic), memory, arithmetic)
    ways = ways_for(pair.target, pair.draft, device, question, found, cache, with_others=False)
    tree = ways.best_tree
    if ways.gain >= PAYS and not (tree and tree.nodes <= SMALL[1]):
        return ""
    return verdict_of(ways)


def ways_for(
    target: Checkpoint,
    draft: Checkpoint | None,
    device: torch.device,
    question: Question,
    found: Plan,
    cache: Path,
    with_others: bool = True,
) -> Ways:
    """The same in figures alone; `with_others`: those that would hold the target in another way, too."""
    question = replace(question, kv_form=found.kv_form, context_tokens=found.context_tokens)
    asked = case_of(target, draft, device, question)
    asked = replace(asked, work=replace(asked.work, room=found.largest_tree))
    alone = replace(asked.work, budget=0, room=0, tokens_per_pass=1.0)
    plain = replace(asked, name="plain", target=without_copies(asked.target), draft=None, work=alone)
    others: list[Case] = []
    if with_others and found.verdict != "device":
        others += _formats(asked, target, device, question, cache)
        others += _with_all_memory(asked, device)
        others += filter(None, [largest_kept(asked)])
    trees = [each for each in tree_yields(question) if not question.budget or each.nodes <= question.budget]
    return ways_of(asked, found, plain, others, trees)


def _formats(asked: Case, target: Checkpoint, device: torch.device, question: Question, cache: Path) -> Iterator[Case]:
    """The target in the formats that Coppice compresses to, where they are fewer bits."""
    if question.weights in COMPRESSED or question.drafts_itself or question.drafts_with_heads:
        return
    sizes = model_sizes(target)
    for name in FORMATS:
        needs = with_kv(needs_of(target, sizes, name, device, question.arithmetic), sizes, question.kv_form)
        if _bytes_of(needs) > FEWER * _bytes_of(asked.target):
            continue
        measured = benchmark_of(target, name, device, cache, question.arithmetic).recall()
        rates = measured.rates if measured else _unmeasured(asked, device)
        yield replace(
            asked,
            name=name,
            target=needs,
            machine=replace(asked.machine, rates=rates),
            is_measured=measured is not None,
            seen=_drafting_of(asked.seen),
        )


def _bytes_of(needs: ModelNeeds) -> int:
    return sum(layer.stored_bytes for layer in needs.layers)


def _drafting_of(seen: Seen | None) -> Seen | None:
    """What was seen of the draft, whatever the target's weights are: of no place where these could be."""
    return replace(seen, tiers=(-1, -1, -1)) if seen else None


def _unmeasured(asked: Case, device: torch.device) -> Rates:
    """Of fewer bits on the same machine: they are decoded as fast as weights in 4 bits were when it was measured.

    A processor multiplies them as they are stored, how fast is assumed.
    """
    return replace(asked.machine.rates, stored=usual_rates(device, is_packed=True).stored)


def _with_all_memory(asked: Case, device: torch.device) -> Iterator[Case]:
    """The same if no other program took any memory, and no limit was set: only where that is more."""
    now = asked.machine.memory
    most = all_memory(device.type)
    memory = Memory(
        max(now.ram_free, most.ram_free),
        now.ram_reserve,
        max(now.vram_free, most.vram_free),
        now.vram_reserve,
        now.has_gpu,
    )
    limits = asked.override
    if memory != now or limits.ram_limit is not None or limits.vram_limit is not None:
        yield replace(
            asked,
            name="kept",
            machine=replace(asked.machine, memory=memory),
            override=replace(limits, place="auto", tiers=(), ram_limit=None, vram_limit=None, force=False),
        )
