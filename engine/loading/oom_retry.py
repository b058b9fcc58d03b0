"""Tries again with less when memory runs out: a load with less of the model in memory, a prefill in smaller passes."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from engine.errors import Cancellation, InputError, OutOfMemory
from engine.loading.kept.kept_texts import KeptTexts
from engine.loading.loading import plan_target
from engine.loading.memory_limits import Limits, MemoryLimits
from engine.loading.out_of_memory import HINT, give_back_memory, out_of_memory_of
from engine.loading.pair import Pair
from engine.model.context import Context
from engine.protocol.messages import Event, Loading
from engine.protocol.sentences import say
from engine.weights.planning.placement import Plan

SHARES_KEPT = (7 / 8, 3 / 4, 1 / 2)  # of what was resident in the attempt before; one retry each
CHOSEN_HINT = say("The placement was chosen by hand and is not changed by itself: choose place 'auto', without force.")

Result = TypeVar("Result")
Attempt = Callable[[Plan], Generator[Event, None, Result]]

FEWER = 4  # times fewer tokens in a pass of a prefill, after one that was too much
HINT_OF_PASSES = say("Choose a smaller tree or a shorter context, or load the model with less memory for its layers.")


def load_with_retries(
    request: int,
    pair: Pair,
    device: torch.device,
    good: MemoryLimits,
    cancellation: Cancellation,
    attempt: Attempt[Result],
) -> Generator[Event, None, Result]:
    """Plan and attempt; after memory ran out plan with less and attempt again, once for each of `SHARES_KEPT`.

    Begins with the limits that worked last, and stores those that work now. A placement that was chosen by hand is
    attempted once and never changed. Raises `OutOfMemory` when nothing smaller is left, and whatever else
    `attempt` raises, which must leave nothing behind then.
    """
    limits = good.limits
    if limits.words:
        yield Loading(
            request, say("Memory ran out with this pair before: planning with {limits}", limits=limits.words), 0, 1
        )
    is_chosen = pair.options.force or pair.options.place != "auto"
    shortage: OutOfMemory | None = None
    for share in (1.0,) if is_chosen else (*SHARES_KEPT, 1.0):
        try:
            options = limits.applied_to(pair.options)
            plan = yield from plan_target(request, pair.target, pair.draft, options, device, cancellation)
        except InputError:
            if shortage is None:
                raise
            break  # not even the smallest placement fits into less
        if shortage:
            yield Loading(request, say("Trying again: {reason}", reason=plan.reason), 0, 1)
        outcome = yield from _attempted(attempt(plan), CHOSEN_HINT if is_chosen else HINT)
        if not isinstance(outcome, OutOfMemory):
            good.remember(limits)
            return outcome
        give_back_memory()
        shortage, lower = outcome, lowered_limits(limits, plan, outcome.of_gpu, share)
        if lower is None:
            break
        limits = lower
        yield Loading(request, shortage.message, 0, 1)
    assert shortage
    raise shortage


def lowered_limits(limits: Limits, plan: Plan, of_gpu: bool, share: float) -> Limits | None:
    """Limits under which at least one layer fewer than in `plan` stays in the memory that ran out.

    About `share` of what was resident there stays; None for a share of 1, or if nothing was resident.
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
        return replace(limits, vram_bytes=limit)
    return replace(limits, ram_bytes=limit)


def _attempted(steps: Generator[Event, None, Result], hint: str) -> Generator[Event, None, Result | OutOfMemory]:
    """The result, or the error that says how memory ran out, once what the attempt had built up is released."""
    doing = say("loading")
    try:
        while True:
            try:
                event = next(steps)
            except StopIteration as end:
                result: Result = end.value
                return result
            if isinstance(event, Loading):
                doing = say(
                    "'{stage}', step {done} of {count}",
                    stage=event.stage,
                    done=min(event.done + 1, event.total),
                    count=event.total,
                )
            yield event
    except Exception as error:
        shortage = out_of_memory_of(error, doing, hint)
        if shortage is None:
            raise
    finally:
        steps.close()
    return shortage.with_traceback(None)


def guarded(run: Callable[[], Result], doing: Callable[[], str] = lambda: say("a round")) -> Result:
    """What `run` returns. Raises `OutOfMemory` where memory ran out, once the memory of what failed is free again.

    `doing`: see `out_of_memory_of`.
    """
    try:
        return run()
    except Exception as error:
        shortage = out_of_memory_of(error, doing(), HINT_OF_PASSES)
        if shortage is None:
            raise
    shortage = shortage.with_traceback(None)  # only here, as the error still holds the memory of what failed above
    give_back_memory()
    raise shortage


class GuardedContext:
    """Scores as its context does. Raises `OutOfMemory`, once the memory of the failed pass is free again."""

    def __init__(self, context: Context, name: str, texts: KeptTexts | None = None) -> None:
        """`name`: the model, for messages. `texts`: takes what the context reads no more; None where nothing may."""
        self._context = context
        self._name = name
        self._texts = KeptTexts(0) if texts is None else texts

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self._context.length

    def prefill(self, tokens: Sequence[int]) -> int:
        """As `Context.prefill`. Where smaller passes were needed, the context keeps to them."""
        context = self._context
        self._exchange(tokens)
        common = context.common(tokens)
        new = len(tokens) - common
        try:
            return self._run(lambda: context.prefill(tokens), min(context.pass_rows, new))
        except OutOfMemory:
            if new <= 1 or context.prefill_rows <= 1:
                raise
        context.shorten_passes(new, FEWER)
        self._run(lambda: context.prefill(tokens), context.pass_rows)
        return common

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """As `Context.score`."""
        return self._run(lambda: self._context.score(tokens, parents, last), len(tokens))

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """As `Context.keep`."""
        self._context.keep(nodes, rest)

    def _exchange(self, tokens: Sequence[int]) -> None:
        """A copy that there is no memory for is not made. Texts in RAM go only where RAM ran out."""
        try:
            self._texts.exchange(self._context, tokens)
        except Exception as error:
            shortage = out_of_memory_of(error, self._name)
            if shortage is None:
                raise
            if not shortage.of_gpu:
                self._texts.clear()
        else:
            return
        give_back_memory()  # only here, as the error still holds the memory of the copy above

    def _run(self, run: Callable[[], Result], rows: int) -> Result:
        try:
            return self._tried(run, rows)
        except OutOfMemory as error:
            if error.of_gpu or not self._texts.clear():
                raise
        give_back_memory()
        return self._tried(run, rows)

    def _tried(self, run: Callable[[], Result], rows: int) -> Result:
        return guarded(run, lambda: say("a pass of {model} over {rows} tokens", model=self._name, rows=rows))
