"""Watches the memory of slots: it is poison outside its time, and whoever touches it then fails with both stacks."""

import ctypes
import sys
import threading
from bisect import bisect_right, insort
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten

from engine.model.passes.layer_hooks import KnownHook
from engine.weights.streaming.binding import Decoded, Views
from engine.weights.streaming.experts.slots import ExpertSlots, LoadedExpert
from engine.weights.streaming.layer_source import DeviceRing, DiskRing
from engine.weights.streaming.layer_stream import LayerStream

POISON = 0xFF  # as bytes of floats: NaN, in every type
DEPTH = 24  # frames of a stack that are told

Stack = tuple[tuple[CodeType, int], ...]
Span = tuple[int, int]
"""Addresses [begin, end)."""


class OutOfTimeError(AssertionError):
    """A slot was used when it was not its user's."""


def stack_here() -> Stack:
    """Where the caller's caller is; cheap, as it is taken at every use of a slot."""
    frame: FrameType | None = sys._getframe(2)
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < DEPTH:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def told(stack: Stack) -> str:
    """A stack in lines, the innermost call last; without torch's own."""
    lines = [
        f"  {code.co_filename}:{line} in {code.co_name}"
        for code, line in reversed(stack)
        if "site-packages" not in code.co_filename
    ]
    return "\n".join(lines)


def span_of(tensor: Tensor) -> Span:
    """The memory from the tensor's first number to its last."""
    if not tensor.numel():
        return 0, 0
    last = sum((size - 1) * abs(stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    begin = tensor.data_ptr()
    return begin, begin + (last + 1) * tensor.element_size()


def poison(memory: Tensor) -> None:
    """Make its numbers nonsense: NaN, if they are floats. This does not count as a use.

    What the host cannot write, a device does on its current stream, behind all that it was told to compute.
    """
    if memory.device.type == "cpu":
        ctypes.memset(memory.data_ptr(), POISON, memory.nbytes)
        return
    with torch.no_grad(), _disable_current_modes():
        memory.detach().view(-1).view(torch.uint8).fill_(POISON)


def overlap(one: Span, other: Span) -> bool:
    """Whether they have an address in common."""
    return one[0] < other[1] and other[0] < one[1]


@dataclass
class Slot:
    """Memory that many layers share in turn. `memory` keeps it from being given to anybody else."""

    memory: Tensor
    holder: str | None = None
    changed: Stack = ()  # where it was acquired or released last


class SlotWatch:
    """What is known of all slots; `clock` counts the uses of slots by the computation, which events refer to."""

    def __init__(self) -> None:
        self.clock = 0
        self._slots: dict[Span, Slot] = {}
        self._order: list[Span] = []  # of the slots, which have no address in common
        self._used: dict[Span, tuple[int, Stack]] = {}
        self._lock = threading.Lock()

    def hold(self, memory: Tensor, holder: str) -> None:
        """From now on `holder` may use this memory."""
        span = span_of(memory)
        with self._lock:
            if span not in self._slots:
                self._slots[span] = Slot(memory)
                insort(self._order, span)
            slot = self._slots[span]
            slot.holder, slot.changed = holder, stack_here()

    def release(self, memory: Tensor, poisoned: bool = True) -> None:
        """From now on nobody may, until it is held again; what it held is lost if it is `poisoned`."""
        with self._lock:
            slot = self._slots[span_of(memory)]
            slot.holder, slot.changed = None, stack_here()
        if poisoned:
            poison(memory)

    def forget(self) -> None:
        """Let go of all memory; to be called when no stream is open."""
        with self._lock:
            self._slots.clear()
            self._order.clear()
            self._used.clear()

    def use(self, tensors: Iterable[Tensor], user: str) -> None:
        """The computation uses these tensors; raises `OutOfTimeError` if one lies in a slot that nobody holds."""
        for tensor in tensors:
            slot = self._slot_at(tensor.data_ptr())
            if slot is None:
                continue
            if slot.holder is None:
                raise OutOfTimeError(
                    f"{user} uses a slot that was released\n{told(slot.changed)}\nand is used\n{told(stack_here())}"
                )
            with self._lock:
                self.clock += 1
                self._used[span_of(tensor)] = self.clock, stack_here()

    def require_passed(self, target: Tensor, after: int | None) -> None:
        """Raise `OutOfTimeError` if the computation uses it behind the event that a copy into it waits for."""
        span = span_of(target)
        with self._lock:
            uses = list(self._used.items())
        for used, (clock, where) in uses:
            if clock > (after or 0) and overlap(used, span):
                raise OutOfTimeError(
                    f"A copy overtakes the computation, which was told to read the slot\n{told(where)}\n"
                    f"and which the copy does not wait for\n{told(stack_here())}"
                )

    def _slot_at(self, address: int) -> Slot | None:
        if not self._order or not self._order[0][0] <= address < self._order[-1][1]:
            return None
        with self._lock:
            begin, end = self._order[bisect_right(self._order, (address, sys.maxsize)) - 1]
        return self._slots[begin, end] if address < end else None


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Shows every operation's tensors to the watch; what only makes views reads nothing."""

    def __init__(self, watch: SlotWatch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watch = watch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not func.is_view:
            tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor)]
            self._watch.use([tensor for tensor in tensors if not tensor.is_meta], str(func))
        return func(*args, **(kwargs or {}))


# ---- installing -----------------------------------------------------------------------------------------------------


@contextmanager
def watched_slots(operations: bool) -> Iterator[SlotWatch]:
    """Every stream that is loaded inside has its slots poisoned and watched, all `operations` of its layers too."""
    watch = SlotWatch()
    with ExitStack() as patches:
        for ring in (DiskRing, DeviceRing):
            _wrap(patches, ring, "acquire", lambda call: _held(watch, call))
            _wrap(patches, ring, "release", lambda call: _released(watch, call))
        for binding in (Views, Decoded):
            _wrap(patches, binding, "bind", lambda call: _bound(watch, call))
        _wrap(patches, ExpertSlots, "load", lambda call: _loaded(watch, call))
        _wrap(patches, ExpertSlots, "held", lambda call: _found(watch, call))
        _wrap(patches, ExpertSlots, "used", lambda call: _used(watch, call))
        _wrap(patches, LayerStream, "load", lambda call: _hooked(watch if operations else None, call))
        yield watch


def _wrap(patches: ExitStack, owner: type, name: str, around: Callable[[Any], Any]) -> None:
    patches.enter_context(patch.object(owner, name, around(getattr(owner, name))))


def _held(watch: SlotWatch, acquire: Any) -> Any:
    def held(ring: Any, layer: int, *args: Any) -> Tensor:
        slot: Tensor = acquire(ring, layer, *args)
        watch.hold(slot, f"layer {layer}")
        ring.__dict__.setdefault("watched", {})[layer] = slot
        return slot

    return held


def _released(watch: SlotWatch, release: Any) -> Any:
    def released(ring: Any, layer: int) -> None:
        slot = ring.watched.pop(layer)
        watch.use([slot], "Its release")  # a copy into it has to wait until here, whatever was watched in between
        watch.release(slot)
        release(ring, layer)

    return released


def _bound(watch: SlotWatch, bind: Any) -> Any:
    def bound(binding: Any, buffer: Tensor) -> None:
        watch.use([buffer], "A layer")
        bind(binding, buffer)

    return bound


def _loaded(watch: SlotWatch, load: Any) -> Any:
    """Slots of experts keep what they hold for the next pass, so they are never poisoned.

    The processor reads them where they are until others are asked for; a device, until all that are used are bound.
    """

    def loaded(slots: ExpertSlots, *args: Any) -> Generator[list[LoadedExpert]]:
        held = _watched(watch, slots)
        _release_all(watch, held)
        with closing(load(slots, *args)) as portions:
            try:
                for experts in portions:
                    for each in experts:
                        for part in each.parts.values():
                            watch.hold(part, f"expert {each.expert}")
                            held.append(part)
                    yield experts
                    watch.use(chain.from_iterable(each.parts.values() for each in experts), "Its binding")
            finally:
                if slots._copy_stream is not None:
                    _release_all(watch, held)

    return loaded


def _watched(watch: SlotWatch, slots: ExpertSlots) -> list[Tensor]:
    """What may be read of these slots; nothing that an earlier test's watch knew, whose stream is used by this one."""
    own, held = slots.__dict__.get("watched", (None, []))
    if own is not watch:
        held = []
        slots.__dict__["watched"] = watch, held
    return held  # type: ignore[no-any-return]


def _release_all(watch: SlotWatch, held: list[Tensor]) -> None:
    for part in held:
        watch.release(part, poisoned=False)
    held.clear()


def _found(watch: SlotWatch, find: Any) -> Any:
    """What is in its slot already is used, too: nothing may be copied there before it was, which `used` says."""

    def found(slots: ExpertSlots, *args: Any) -> list[LoadedExpert]:
        experts: list[LoadedExpert] = find(slots, *args)
        for part in (part for each in experts for part in each.parts.values()):
            watch.hold(part, "an expert in its slot")
            watch.use([part], "Its binding")
            _watched(watch, slots).append(part)
        return experts

    return found


def _used(watch: SlotWatch, use: Any) -> Any:
    def used(slots: ExpertSlots, *args: Any) -> None:
        _release_all(watch, _watched(watch, slots))
        use(slots, *args)

    return used


def _hooked(watch: SlotWatch | None, load: Any) -> Any:
    """While a layer runs, its operations are watched; behind it, what was decoded for it alone is poison."""

    def hooked(stream: LayerStream) -> Iterator[int]:
        yield from load(stream)
        for layer in stream._layers:
            stream._hooks.append(layer.register_forward_hook(_behind(stream), always_call=True))
            if watch:
                mode = _Operations(watch)
                stream._hooks.append(layer.register_forward_pre_hook(_enter(mode), prepend=True))
                stream._hooks.append(layer.register_forward_hook(_leave(mode), prepend=True, always_call=True))

    return hooked


def _enter(mode: _Operations) -> Callable[[nn.Module, Any], None]:
    def enter(_layer: nn.Module, _inputs: object) -> None:
        mode.__enter__()  # type: ignore[no-untyped-call]

    return enter


def _leave(mode: _Operations) -> Callable[[nn.Module, Any, Any], None]:
    def leave(_layer: nn.Module, _inputs: object, _output: object) -> None:
        mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    return leave


def _behind(stream: LayerStream) -> KnownHook:
    def behind(_inputs: object) -> None:
        for weights in stream._scratch._layers.values():
            for weight in weights.values():
                poison(weight)
        if len(stream._scratch._one):
            poison(stream._scratch._one)

    return KnownHook(behind, "each")  # layers in one go decode nothing
