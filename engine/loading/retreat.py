"""Loads a pair with less and less of it in memory, a few times at most, when memory runs out."""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TypeVar

import torch

from engine.cancellation import Cancellation
from engine.errors import InputError, OutOfMemory
from engine.loading.good_settings import GoodSettings, Setting
from engine.loading.loading import plan_target
from engine.loading.pair import Pair
from engine.loading.shortage import HINT, give_back_memory, shortage_of
from engine.protocol.messages import Event, Loading
from engine.weights.planning.placement import Plan

SHARES_KEPT = (7 / 8, 3 / 4, 1 / 2)  # of what was resident in the attempt before; one retry each
CHOSEN_HINT = "The placement was chosen by hand and is not changed by itself: choose place 'auto', without force."

Result = TypeVar("Result")
Attempt = Callable[[Plan], Generator[Event, None, Result]]


def load_retreating(
    request: int,
    pair: Pair,
    device: torch.device,
    good: GoodSettings,
    cancellation: Cancellation,
    attempt: Attempt[Result],
) -> Generator[Event, None, Result]:
    """Plan and attempt; after a shortage plan with less and attempt again, once for every one of `SHARES_KEPT`.

    Begins with what worked last, and remembers what works now. A placement that a person has chosen is never changed
    behind their back: it is attempted once. Raises `OutOfMemory` when nothing smaller is left, and whatever else
    `attempt` raises, which must leave nothing behind then.
    """
    setting = good.setting
    if setting.words:
        yield Loading(request, f"Memory ran out with this pair before: planning with {setting.words}", 0, 1)
    is_chosen = pair.options.force or pair.options.place != "auto"
    shortage: OutOfMemory | None = None
    for share in (1.0,) if is_chosen else (*SHARES_KEPT, 1.0):
        try:
            options = setting.limit(pair.options)
            plan = yield from plan_target(request, pair.target, pair.draft, options, device, cancellation)
        except InputError:
            if shortage is None:
                raise
            break  # not even the smallest placement fits into less
        if shortage:
            yield Loading(request, f"Trying again: {plan.reason}", 0, 1)
        outcome = yield from _attempted(attempt(plan), CHOSEN_HINT if is_chosen else HINT)
        if not isinstance(outcome, OutOfMemory):
            good.remember(setting)
            return outcome
        give_back_memory()
        shortage, lower = outcome, lowered(setting, plan, outcome.of_gpu, share)
        if lower is None:
            break
        setting = lower
        yield Loading(request, shortage.message, 0, 1)
    assert shortage
    raise shortage


def lowered(setting: Setting, plan: Plan, of_gpu: bool, share: float) -> Setting | None:
    """A limit under which at least a layer less than in `plan` stays in the memory that ran out.

    About `share` of what was resident there may stay; None if all of it may, or if none was.
    """
    taken = plan.bytes
    if plan.room.shared:
        resident, total = taken.layers + taken.ram_layers, taken.device + taken.ram - taken.experts
    elif of_gpu:
        resident, total = taken.layers, taken.device - taken.experts
    else:
        resident, total = taken.ram_layers, taken.ram
    if share >= 1 or not resident:
        return None
    limit = max(1, total - max(int(resident * (1 - share)), *plan.layer_bytes))
    if of_gpu and not plan.room.shared:
        return replace(setting, vram_bytes=limit)
    return replace(setting, ram_bytes=limit)


def _attempted(steps: Generator[Event, None, Result], hint: str) -> Generator[Event, None, Result | OutOfMemory]:
    """The result, or how memory ran out; by then nothing holds on to what the attempt had built up."""
    doing = "loading"
    try:
        while True:
            try:
                event = next(steps)
            except StopIteration as end:
                result: Result = end.value
                return result
            if isinstance(event, Loading):
                doing = f"'{event.stage}', step {min(event.done + 1, event.total)} of {event.total}"
            yield event
    except Exception as error:
        shortage = shortage_of(error, doing, hint)
        if shortage is None:
            raise
    finally:
        steps.close()
    return shortage.with_traceback(None)
