"""Attention of trees for transformers' networks: torch's kernels on grouped keys and values as they lie in the cache.

transformers' own function writes keys and values once for every query head as soon as there is a mask, and a pass over
a tree has one: in every layer, of the whole context. Here keys are read where they are:

- Few rows of all the heads that share keys become rows of one head, in one read of the keys.
- With more rows, heads that share keys stand side by side in a view whose step between heads is 0.
- Keys and values that are packed (`slot_forms`) are unpacked for some heads at a time, and attended to at once.
- Without a mask the kernels know of groups by themselves. Then every row sees what stands before it, up to the last
  slot: a text, at its beginning or behind what the cache holds of it already, in blocks that leave out the rest.

Whole passes on a CPU (AVX2, 1 thread, float32, 4 layers of 1,024 with 16 heads on 4, behind 3,072 tokens), in turns
with transformers' function: 1 row 25 and 25 ms, 8 rows 60 and 92 ms, 64 rows 219 and 250 ms.
"""

import inspect
import re
import sys
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from engine.accelerator import is_accelerator
from engine.model.passes.block_choice import BlockScores
from engine.model.passes.slot_forms import PackedStates
from engine.own_thread import threads_allowed, threads_for

NAME = "coppice_tree"
"""By which configurations of transformers call this attention."""

FEW_ROWS = 8  # up to here the rows of a group fill one block of a kernel, and one read of the keys serves all heads
FOLDED = 1 << 18  # numbers of a mask for all heads of a group, up to which a CPU reads keys once for all
WORTH_THREADS = 1 << 20  # products of scores, about, that one thread takes longer for than several take to be woken
# Bytes of packed keys and values that are unpacked at once: what stays in a core's caches until the product reads it.
# On a CPU (AVX2, 1 thread, 1 row behind 4,096 slots, 8 heads of 128 for 32) one head after the other takes 10.5 ms, all
# together 56 ms, and keys and values in float32 14.0 ms. On a GPU: little beside a layer; not measured.
UNPACKED, UNPACKED_ON_DEVICE = 1 << 20, 1 << 26
ALIGNMENT = 8  # numbers: CUDA's kernels copy a mask whose rows begin elsewhere, in every layer
NAMES_ATTENTION = re.compile(r"_attn_implementation\s*(==|!=|in\b|not in\b)\s*[(\[]?\s*[\"'](eager|sdpa)")

# gemma4 asks whether it may drop rows whose outputs nobody reads: the last ones stay, as this attention has them.
# MiniMax M3 makes masks of blocks for these two; here they are made for the heads of one group at a time.
HARMLESS = ("transformers.models.gemma4.", "transformers.models.gemma4_unified.", "transformers.models.minimax_m3_vl.")


def adopt(model: nn.Module) -> bool:
    """Have a network that was built for `sdpa` use this attention; False where its own code asks for that name.

    Such a network (indexed attention, falcon) does something else with masks for one name than for another.
    """
    if any(_names_attention(type(module).__module__) for module in model.modules()):
        return False
    for module in model.modules():
        config = getattr(module, "config", None)
        if config is not None and getattr(config, "_attn_implementation", None) == "sdpa":
            config._attn_implementation = NAME
    return True


@cache
def _names_attention(module_name: str) -> bool:
    if not module_name.startswith("transformers.models.") or module_name.startswith(HARMLESS):
        return False
    try:
        return NAMES_ATTENTION.search(inspect.getsource(sys.modules[module_name])) is not None
    except OSError:  # without its source nobody knows
        return True


def tree_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """As transformers calls it: query [1, heads, rows, d], key and value [1, heads that share, slots, d or other].

    Returns [1, rows, heads, d of value]. `attention_mask`: [1, 1, rows, slots], bool or to be added to scores. None:
    row i sees all slots but the last rows - 1 - i. What networks ask for besides (biases of positions) is left to the
    library's function.
    """
    chosen = others.pop("block_indices", None)
    if isinstance(chosen, BlockScores):
        return _by_choice(module, query, key, value, chosen.seen(attention_mask), scaling), None
    rows, slots = query.shape[2], key.shape[2]
    is_plain = _is_plain(query, attention_mask, dropout, others)
    if is_plain and isinstance(key, PackedStates) and isinstance(value, PackedStates):
        return _by_heads(module, query, key, value, attention_mask, scaling), None
    if attention_mask is None and rows > 1 and not (is_plain and (rows == slots or _flash_takes(query, key, value))):
        attention_mask = torch.ones(rows, slots, dtype=torch.bool, device=query.device).tril_(slots - rows)[None, None]
    with threads_for(query.numel() * slots, WORTH_THREADS):  # the bits are the same
        if not is_plain:
            arguments = {"dropout": dropout, "scaling": scaling, **others}
            return sdpa_attention_forward(module, query, key, value, attention_mask, **arguments)  # type: ignore[no-any-return]
        found = _attend(query, key, value, attention_mask, scaling)
        return found.transpose(1, 2).contiguous(), None


def _by_heads(
    module: nn.Module, query: Tensor, key: PackedStates, value: PackedStates, mask: Tensor | None, scale: float | None
) -> Tensor:
    """The same of packed keys and values: those of a few heads are there unpacked at once."""
    shared = key.shape[1]
    group = query.shape[1] // shared
    at_once = heads_at_once(key, value)
    found = []
    for begin in range(0, shared, at_once):
        end = min(begin + at_once, shared)
        some = query[:, begin * group : end * group]
        found.append(tree_attention(module, some, key.heads(begin, end), value.heads(begin, end), mask, 0.0, scale)[0])
    return found[0] if len(found) == 1 else torch.cat(found, 2)


def _by_choice(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, seen: Tensor, scale: float | None
) -> Tensor:
    """The same where groups of heads see different slots: `seen`, bool [groups, rows, slots]."""
    groups, shared, found = len(seen), key.shape[1], []
    queries = query.shape[1] // groups
    for group in range(groups):
        begin = group * shared // groups  # several groups may share a head
        keys, values = (_heads(states, begin, begin + max(1, shared // groups)) for states in (key, value))
        some = query[:, group * queries : (group + 1) * queries]
        found.append(tree_attention(module, some, keys, values, seen[None, group : group + 1], 0.0, scale)[0])
    return torch.cat(found, 2)


def _heads(states: Tensor, begin: int, end: int) -> Tensor:
    return states.heads(begin, end) if isinstance(states, PackedStates) else states[:, begin:end]


def heads_at_once(key: Tensor, value: Tensor) -> int:
    """How many heads of packed keys and values are unpacked together."""
    of_head = key.shape[2] * (key.shape[3] + value.shape[3]) * key.element_size()
    if is_accelerator(key.device):
        return max(1, UNPACKED_ON_DEVICE // max(1, of_head))
    # A kernel's threads take heads each where there are few rows.
    return max(threads_allowed(), UNPACKED // max(1, of_head))


def _is_plain(query: Tensor, mask: Tensor | None, dropout: float, others: dict[str, Any]) -> bool:
    """Whether nothing is asked for but attention of one text, causal or by one mask for all heads."""
    asked = [others.get(name) for name in ("position_bias", "softcap", "cache", "output_attentions")]
    alike = mask is None or (mask.dim() == 4 and mask.shape[:2] == (1, 1))
    return len(query) == 1 and alike and not dropout and all(each is None or each is False for each in asked)


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    """[1, heads, rows, d of value]."""
    _, heads, rows, _ = query.shape
    shared, slots = key.shape[1:3]
    group = heads // shared
    if mask is not None and mask.dtype not in {torch.bool, query.dtype}:
        mask = mask.to(query.dtype)
    is_small = key.device.type == "cpu" and group * rows * slots <= FOLDED
    if rows == 1 or (mask is not None and (rows <= FEW_ROWS or (group > 1 and is_small))):
        folded = None if mask is None else mask.expand(1, group, rows, slots).reshape(1, 1, group * rows, slots)
        in_one = query.reshape(1, shared, group * rows, -1)
        found = scaled_dot_product_attention(in_one, key, value, attn_mask=folded, scale=scale)
    elif mask is None and _flash_takes(query, key, value):
        is_whole = rows == slots
        seen: Any = None if is_whole else _aligned_below(rows, slots)
        found = scaled_dot_product_attention(
            query, key, value, attn_mask=seen, is_causal=is_whole, scale=scale, enable_gqa=group > 1
        )
    else:
        keys, values = (each.transpose(0, 1).expand(-1, group, -1, -1) for each in (key, value))
        beside = query.reshape(shared, group, rows, -1)
        found = scaled_dot_product_attention(beside, keys, values, attn_mask=mask, is_causal=mask is None, scale=scale)
    return found.reshape(1, heads, rows, -1)


def _aligned_below(rows: int, slots: int) -> Tensor:
    """What the last rows of a text see, for CUDA's kernel: to import its module takes half a second of every start."""
    from torch.nn.attention.bias import causal_lower_right  # noqa: PLC0415

    made: Tensor = causal_lower_right(rows, slots)
    return made


def _flash_takes(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether CUDA's flash kernel runs these: only it leaves out what later rows see without a mask."""
    if query.device.type != "cuda":
        return False
    # Not `is_causal`: torch refuses that for other numbers of rows than of slots, as it would align them at the top.
    parameters = torch.backends.cuda.SDPAParams(query, key, value, None, 0.0, False, True)
    return torch.backends.cuda.can_use_flash_attention(parameters)


def tree_mask(**arguments: Any) -> Tensor | None:
    """As transformers makes masks where a pass brings none: None where rows are causal, else that of `sdpa`."""
    q_length, kv_length, q_offset = (arguments.get(name, 0) for name in ("q_length", "kv_length", "q_offset"))
    no_more = all(arguments.get(name) is None for name in ("attention_mask", "local_size"))
    is_whole = not arguments.get("kv_offset", 0) and kv_length == q_offset + q_length
    if no_more and is_whole and arguments.get("allow_is_causal_skip", True):
        return None
    mask: Tensor | None = sdpa_mask(**{**arguments, "allow_is_causal_skip": False})
    return mask


ALL_ATTENTION_FUNCTIONS.register(NAME, tree_attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, tree_mask)
