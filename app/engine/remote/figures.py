"""What an engine elsewhere tells of an answer in figures, as those of our own; times it does not tell are measured."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.system import json_text as json
from engine.protocol.messages import Seconds, Statistics
from engine.protocol.sentences import say

DRAFTED, PLAIN, UNTOLD = "draft", "none", ""
"""`Statistics.method`: it speculated, it did not, or it does not tell."""

_MOST_STEPS = 1 << 20
_MOST_DRAFTED = 1 << 16
_COUNTER = re.compile(
    rb"^vllm:spec_decode_num_(drafts|draft_tokens|accepted_tokens)(?:_total)?(?:\{[^}\n]*\})? (\S+)", re.MULTILINE
)
_SHARED = say("Speculation was counted over all answers that the engine wrote meanwhile; others may be among them.")


@dataclass(frozen=True, slots=True)
class Counters:
    """vLLM's counters of its speculation, over all that it answered since its start."""

    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0

    def since(self, before: "Counters") -> "Counters":
        """What was added; nothing where the server was started anew."""
        gains = (
            self.drafts - before.drafts,
            self.draft_tokens - before.draft_tokens,
            self.accepted_tokens - before.accepted_tokens,
        )
        return Counters(*gains) if min(gains) >= 0 else Counters()


def counters_in(metrics: bytes) -> Counters | None:
    """The counters in a text of Prometheus' form (its text-based exposition format 0.0.4); None without any."""
    sums: dict[bytes, float] = {}
    for name, value in _COUNTER.findall(metrics):
        number = _number(value.decode("ascii", "replace"))
        sums[name] = sums.get(name, 0.0) + number
    if not sums:
        return None
    return Counters(*(int(sums.get(name, 0.0)) for name in (b"drafts", b"draft_tokens", b"accepted_tokens")))


@dataclass(frozen=True, slots=True)
class TokenSteps:
    """The steps of one answer: how many tokens each drafted, and how many of them were accepted."""

    drafted: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()


def steps_in(metrics: Any) -> TokenSteps:
    """vLLM's `metrics.speculative_decoding` step by step, if it tells them."""
    told = _speculation(metrics)
    drafted, accepted = _counts(told.get("per_step_drafted")), _counts(told.get("per_step_accepted"))
    if not accepted or len(drafted) not in (0, len(accepted)):
        return TokenSteps()
    return TokenSteps(drafted or accepted, accepted)


def with_usage(figures: Statistics, usage: Any) -> Statistics:
    """With the counts that every server tells, as OpenAI has them."""
    if not isinstance(usage, dict):
        return figures
    details = usage.get("prompt_tokens_details")
    cached = json.count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return replace(
        figures,
        prompt_tokens=json.count(usage.get("prompt_tokens")) or figures.prompt_tokens,
        cached_tokens=cached or figures.cached_tokens,
        new_tokens=json.count(usage.get("completion_tokens")) or figures.new_tokens,
    )


def with_timings(figures: Statistics, timings: Any) -> Statistics:
    """With llama-server's `timings`. A pass gives one token of its own besides those that were accepted."""
    if not isinstance(timings, dict):
        return figures
    new = json.count(timings.get("predicted_n"))
    drafted, accepted = json.count(timings.get("draft_n")), json.count(timings.get("draft_n_accepted"))
    cached = json.count(timings.get("cache_n"))
    read = json.count(timings.get("prompt_n")) + cached
    seconds = Seconds(prefill=_seconds(timings.get("prompt_ms")), decode=_seconds(timings.get("predicted_ms")))
    return replace(
        figures,
        method=DRAFTED if drafted else PLAIN,
        prompt_tokens=read or figures.prompt_tokens,
        cached_tokens=cached,
        new_tokens=new or figures.new_tokens,
        passes=max(0, new - min(accepted, new)),
        drafted_nodes=drafted,
        seconds=seconds if seconds.decode else figures.seconds,
    )


def with_metrics(figures: Statistics, metrics: Any) -> Statistics:
    """With vLLM's `metrics.speculative_decoding` of this answer."""
    told = _speculation(metrics)
    steps = json.count(told.get("num_spec_steps"))
    if not steps:
        return figures
    found = steps_in(metrics)
    length, rate = _number(told.get("mean_acceptance_length")), _number(told.get("draft_acceptance_rate"))
    drafted = sum(found.drafted) or (round(steps * max(0.0, length - 1) / rate) if rate else 0)
    return _with_steps(figures, steps, drafted, sum(found.accepted) or round(steps * max(0.0, length - 1)))


def with_counters(figures: Statistics, gained: Counters) -> Statistics:
    """With what vLLM's counters gained meanwhile, where it tells nothing of the answer itself."""
    if not gained.drafts or figures.passes:
        return figures
    counted = _with_steps(figures, gained.drafts, gained.draft_tokens, gained.accepted_tokens)
    return replace(counted, note=_SHARED)


def _with_steps(figures: Statistics, steps: int, drafted: int, accepted: int) -> Statistics:
    """Tokens that came without speculation, such as the first one, took a pass each."""
    plain = max(0, figures.new_tokens - steps - accepted)
    return replace(figures, method=DRAFTED, passes=steps + plain, drafted_nodes=drafted)


def _speculation(metrics: Any) -> Mapping[str, Any]:
    told = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    return told if isinstance(told, dict) else {}


def _counts(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or len(values) > _MOST_STEPS:
        return ()
    found = tuple(json.count(each) for each in values)
    return found if all(each <= _MOST_DRAFTED for each in found) else ()


def _seconds(milliseconds: Any) -> float:
    return _number(milliseconds) / 1000


def _number(value: Any) -> float:
    """A finite number from 0 on; 0 for anything else."""
    try:
        number = float(value) if isinstance(value, int | float | str) else 0.0
    except (ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) and 0 <= number <= 1 << 53 else 0.0
