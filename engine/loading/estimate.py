"""What a pair would take and give on this machine, estimated without loading it, whatever else is loaded."""

import time
from dataclasses import replace
from pathlib import Path

import psutil
import torch

from engine import accelerator
from engine.errors import CoppiceError, DraftError
from engine.loading.measurements.arithmetic import recall_arithmetic
from engine.loading.pair import PairIdentity, draft_for, draft_named, draft_source
from engine.loading.planning import plan_pair
from engine.loading.rates import question_for, recall_measured
from engine.loading.store import cache_root
from engine.loading.ways import told_ways
from engine.model.architecture import open_architecture
from engine.model.checkpoint import Checkpoint, is_header_only, open_checkpoint
from engine.model.device import choose_device
from engine.model.facts import open_facts
from engine.model.model_folder import ModelRole, find_model
from engine.model.shape import ModelSizes, model_sizes
from engine.protocol.messages import Appraise, Appraised, LayersAt
from engine.weights.planning.machine import Memory, memory_now
from engine.weights.planning.placement import Plan

LIBRARY_BYTES = 450 << 20  # torch and transformers, where their memory could not be measured alone
KNOWN = 256  # checkpoints whose tables are kept
SECONDS_FRESH = 2.0

_Stamp = tuple[tuple[str, int, int], ...]


class Estimator:
    """Answers one question after the other, in a thread of its own. Tables that were read are remembered."""

    def __init__(self, loaded: bool) -> None:
        """`loaded`: whether this process has begun to load a pair, which then cannot be told from the libraries."""
        self._library_bytes = LIBRARY_BYTES if loaded else _own_bytes()
        self._held: tuple[float, int] = (float("-inf"), 0)
        self._known: dict[Path, tuple[_Stamp, Checkpoint, ModelSizes]] = {}

    def estimate(self, question: Appraise) -> Appraised:
        """The answer; what cannot be planned, or not be loaded here, has the verdict `no` and the reason why."""
        try:
            return self._plan(question)
        except DraftError as error:
            return Appraised(question.id, "no", error.reason, faulty_draft=error.draft)
        except CoppiceError as error:
            return Appraised(question.id, "no", error.message)

    def _plan(self, question: Appraise) -> Appraised:
        options = question.options
        options.check()
        device = choose_device(options.device)
        target = self._open(options.target, "target")
        source = draft_source(options)
        draft = draft_for(target, self._open_draft(source) if source else None, options)
        arithmetic = recall_arithmetic(options, device)
        pair = PairIdentity(target, draft, options)
        here = recall_measured(pair, device, arithmetic)
        asked, measured = question_for(pair, here, self._memory(device), arithmetic), here.target
        plan = plan_pair(target, draft, device, asked)
        found = told_ways(target, draft, device, asked, plan, cache_root(options))
        answer = _answer(question.id, plan, device, target)
        if best := found.expected:
            answer = replace(
                answer,
                seconds_per_pass=best.pass_seconds,
                tokens_per_pass=best.tokens_per_pass,
                tokens_per_second=best.tokens_per_second,
            )
        return replace(
            answer,
            ways=found.ways,
            trees=found.verdict,
            advice=found.advice,
            basis=found.basis,
            measured_at=measured.at if measured else "",
        )

    def _open_draft(self, source: str) -> Checkpoint:
        with draft_named(source):
            return self._open(source, "draft")

    def _open(self, source: str, role: ModelRole) -> Checkpoint:
        folder = find_model(source, role)
        known = self._known.get(folder)
        if known and known[0] == _stamp(known[1]):
            return known[1]
        checkpoint = open_facts(folder) if is_header_only(folder) else open_checkpoint(source, role=role)
        open_architecture(checkpoint)  # only for its refusals: what cannot be loaded is not planned for
        if len(self._known) >= KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[folder] = (_stamp(checkpoint), checkpoint, model_sizes(checkpoint))
        return checkpoint

    def _memory(self, device: torch.device) -> Memory:
        """Memory as it is once the loaded pair is unloaded, which happens before another one is loaded."""
        now = memory_now(device.type)
        if time.monotonic() - self._held[0] > SECONDS_FRESH:
            self._held = (time.monotonic(), max(0, _own_bytes() - self._library_bytes))
        vram = accelerator.allocated_bytes(device)
        return replace(now, ram_free=now.ram_free + self._held[1], vram_free=now.vram_free + vram)


def _own_bytes() -> int:
    """RAM that would be free without this process; files that are only mapped are not counted."""
    return int(psutil.Process().memory_full_info().uss)


def _stamp(checkpoint: Checkpoint) -> _Stamp:
    """Changes when a file of the checkpoint does."""
    stamp = []
    for path in checkpoint.files:
        try:
            state = path.stat()
        except OSError:
            return ()
        stamp.append((path.name, state.st_size, state.st_mtime_ns))
    return tuple(stamp)


def _answer(request: int, plan: Plan, device: torch.device, target: Checkpoint) -> Appraised:
    taken, forecast = plan.bytes, plan.forecast
    counts = plan.arrangement.count
    return Appraised(
        id=request,
        verdict=plan.verdict,
        reason=plan.reason,
        device=device.type,
        tiers=(
            LayersAt("device", counts("device"), taken.device),
            LayersAt("ram", counts("ram"), taken.ram),
            LayersAt("ssd", counts("ssd"), taken.ssd),
        ),
        parameters=target.parameters,
        context_tokens=plan.context_tokens,
        seconds_per_pass=forecast.seconds_per_pass,
        tokens_per_pass=forecast.tokens_per_pass,
        tokens_per_second=forecast.tokens_per_second,
        context_note=plan.note if plan.verdict != "no" else "",  # else the reason ends with it
    )
