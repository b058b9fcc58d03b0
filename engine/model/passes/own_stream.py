"""Lets a context compute on a stream of its own: a draft's short passes beside the long ones of its target.

A host that waits for a target's weights is no idle GPU: layers that were launched already may be computing still. On
the same stream a draft's pass would stand behind them, the host would wait for both and launch the next layer late.
So the draft has a stream that goes first (`engine.accelerator.FIRST`): the host waits for its few small kernels alone,
and what the target was given computes on in between. A stream that goes last would have the host wait for the target
again.

What makes it safe: all that a context keeps (cache, rows for the next pass) is made, changed and dropped on its stream,
in order. It takes tokens from the host, and is done when `score` returns, so any stream may read the logits; they are
marked as used there, for torch's allocator gives memory back to the stream that it was made for.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from torch import Tensor

from engine import accelerator

P = ParamSpec("P")
R = TypeVar("R")


class HasStream(Protocol):
    """`stream`: of `engine.accelerator.make_stream`; None to compute on that of the caller."""

    stream: Any


OnStream = TypeVar("OnStream", bound=HasStream)


def on_own_stream(method: Callable[Concatenate[OnStream, P], R]) -> Callable[Concatenate[OnStream, P], R]:
    """A method whose work on the device goes to the stream of its object, if that has one."""

    @wraps(method)
    def run(self: OnStream, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.stream is None:
            return method(self, *args, **kwargs)
        caller = accelerator.current_stream(self.stream.device)
        with accelerator.on_stream(self.stream):
            found = method(self, *args, **kwargs)
        if isinstance(found, Tensor) and caller != self.stream:
            found.record_stream(caller)
        return found

    return cast(Callable[Concatenate[OnStream, P], R], run)


def begin_stream(stream: Any) -> Any:
    """`stream`, behind all that the caller's stream was given until now, such as copies of weights."""
    if stream is not None:
        stream.wait_stream(accelerator.current_stream(stream.device))
    return stream
