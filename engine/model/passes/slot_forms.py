"""How the keys and values of a cache slot are kept: as they are computed, or as 8-bit codes with scales.

A token's codes depend on its own keys and values alone: not on other tokens or their order. So a tree in an 8-bit
cache reads what one token at a time would read there, and a kept path has the codes already. Passes of other sizes
compute keys that differ in their last bits; one that lies between two codes may get the other one then.

Per-token scales of a head's values follow KIVI (arXiv 2402.02750). Its keys have a scale per channel over many tokens,
as some channels are large in all of them; a scale for every 32 channels of one token keeps a large channel to its
group, as the blocks of llama.cpp's `q8_0` do, and needs no other token.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.model.shape import key_group

LARGEST = 127  # code: symmetric, so that 0 stays 0
SCALE_TYPE = torch.bfloat16  # its range is float32's, and codes are made with the scale as it was rounded


class SlotForm(Protocol):
    """What a layer of the cache stores of a slot, in which `parts`, and what it hands to the attention."""

    parts: tuple[str, ...]

    def pack(self, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        """What is stored of keys and values [1, heads, n, width], part by part, [1, heads, n, any]."""

    def unpack(self, stored: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Keys and values [1, heads, n, width] of `dtype`, for the attention, from views of the parts."""


class AsComputed:
    """Keys and values in the number type of the network."""

    parts: tuple[str, ...] = ("keys", "values")

    def pack(self, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        """See `SlotForm.pack`."""
        return keys, values

    def unpack(self, stored: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """See `SlotForm.unpack`: views."""
        del dtype
        keys, values = stored
        return keys, values


class EightBits:
    """Codes of 8 bits, with a scale for every 32 channels of a key, and one for every head's value."""

    parts: tuple[str, ...] = ("keys", "key_scales", "values", "value_scales")

    def pack(self, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        """See `SlotForm.pack`."""
        return *packed(keys, key_group(keys.shape[-1])), *packed(values, values.shape[-1])

    def unpack(self, stored: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """See `SlotForm.unpack`: without numbers, see `PackedStates`."""
        keys, key_scales, values, value_scales = stored
        return PackedStates(keys, key_scales, dtype), PackedStates(values, value_scales, dtype)


AS_COMPUTED: SlotForm = AsComputed()
EIGHT_BITS: SlotForm = EightBits()


def packed(states: Tensor, group: int) -> tuple[Tensor, Tensor]:
    """Codes int8 [..., width] and scales [..., width / group] of `states`: no number is off by more than half a scale.

    A scale is 1 / 127 of the largest number of its group, rounded. What is no number stays none. Unpacked in float32, a
    number is off by up to 1/253 of that largest one; with the rounding of 16 bits by up to 1/127.
    """
    width = states.shape[-1]
    if not width:
        return states.to(torch.int8), states.new_empty(states.shape, dtype=SCALE_TYPE)
    grouped = states.float().view(*states.shape[:-1], width // group, group)
    scales = (grouped.abs().amax(-1) / LARGEST).to(SCALE_TYPE)
    divisors = scales.float().masked_fill(scales == 0, 1.0)  # of zeros alone
    codes = (grouped / divisors[..., None]).round_().clamp_(-LARGEST, LARGEST)
    return codes.to(torch.int8).flatten(-2), scales


def unpacked(codes: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers [..., width] that codes stand for."""
    if not codes.shape[-1]:
        return codes.to(dtype)
    exact = torch.float32 if dtype == torch.float16 else dtype  # whose range is not that of the scales
    grouped = codes.view(*scales.shape, codes.shape[-1] // scales.shape[-1]).to(exact)
    return grouped.mul_(scales.to(exact)[..., None]).flatten(-2).to(dtype)


_FACTS = {
    *(getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "layout", "requires_grad")),
    *(Tensor.numel, Tensor.size, Tensor.dim, Tensor.element_size, Tensor.is_floating_point),
}  # what is asked of keys and values without touching their numbers


class PackedStates(Tensor):
    """Stands where a network looks for keys or values [1, heads, slots, width]: of their shape and type, packed.

    The attention of trees unpacks some heads at a time. All else, whatever a network does with them, finds those of
    this layer unpacked.
    """

    _codes: Tensor
    _scales: Tensor

    @staticmethod
    def __new__(cls, codes: Tensor, scales: Tensor, dtype: torch.dtype) -> "PackedStates":
        """`codes`: int8 [1, heads, slots, width]; `scales`: [1, heads, slots, groups]."""
        made: PackedStates = Tensor._make_wrapper_subclass(cls, codes.shape, dtype=dtype, device=codes.device)
        made._codes, made._scales = codes, scales
        return made

    def heads(self, begin: int, end: int) -> Tensor:
        """The numbers of heads [begin, end), [1, heads, slots, width]."""
        return unpacked(self._codes[:, begin:end], self._scales[:, begin:end], self.dtype)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Torch's own door for types of tensors: every function that is handed such states comes by here."""
        named = dict(kwargs or {})
        if func in _FACTS:
            return super().__torch_function__(func, types, args, named)  # type: ignore[no-untyped-call]  # of torch
        return func(*map(_numbers, args), **{name: _numbers(each) for name, each in named.items()})

    @classmethod
    def __torch_dispatch__(cls, func: object, *_rest: object) -> Any:
        """Never reached: `__torch_function__` comes first, and hands on tensors that hold numbers."""
        raise AssertionError(f"{func} was handed states without numbers")


def _numbers(value: Any) -> Any:
    if isinstance(value, PackedStates):
        return value.heads(0, value.shape[1])
    return type(value)(map(_numbers, value)) if isinstance(value, (list, tuple)) else value
