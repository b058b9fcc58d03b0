"""The best of two measurements of one machine: whatever else it does meanwhile only ever takes from its rates."""

from dataclasses import replace

from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.machine import Rates

RATES = ("link", "ssd", "memory", "tflops", "decode", "unpack", "host_memory", "host_tflops")
SECONDS = ("call_seconds", "pass_seconds", "round_seconds")
CURVES = ("products", "attention", "stored", "calls", "levels", "host")


def best_of(now: Rates, before: Rates) -> Rates:
    """Of every rate the higher one, of every time the shorter one; of curves over other rows those of now."""
    found: dict[str, object] = {name: max(getattr(now, name), getattr(before, name)) for name in RATES}
    found |= {name: min(getattr(now, name), getattr(before, name)) for name in SECONDS}
    found |= {name: _shorter(getattr(now, name), getattr(before, name)) for name in CURVES}
    return replace(now, **found)  # type: ignore[arg-type]


def _shorter(now: PassTime | None, before: PassTime | None) -> PassTime | None:
    if now is None or before is None or now.rows != before.rows:
        return now
    return PassTime(now.rows, tuple(map(min, now.seconds, before.seconds)))
