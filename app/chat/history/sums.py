"""The figures of an answer that was written in several goes."""

from dataclasses import fields, replace

from engine.protocol.messages import Seconds, Statistics


def added(before: Statistics | None, now: Statistics | None) -> Statistics | None:
    """Both as one: what was done is added up, what was read and awaited at first stays, the longer go names the method.

    Reading the answer again, to go on with it, is time that was spent, but no longer prompt.
    """
    if before is None or now is None:
        return now or before
    longer = before if before.passes > now.passes else now
    return replace(
        now,
        method=longer.method,
        budget=longer.budget,
        prompt_tokens=before.prompt_tokens,
        cached_tokens=before.cached_tokens,
        new_tokens=before.new_tokens + now.new_tokens,
        passes=before.passes + now.passes,
        drafted_nodes=before.drafted_nodes + now.drafted_nodes,
        first_token_seconds=before.first_token_seconds or now.first_token_seconds,
        bytes_streamed=before.bytes_streamed + now.bytes_streamed,
        seconds=_sum(before.seconds, now.seconds),
    )


def _sum(before: Seconds, now: Seconds) -> Seconds:
    names = [each.name for each in fields(Seconds)]
    return Seconds(**{name: getattr(before, name) + getattr(now, name) for name in names})
