"""The experts of a layer that is in memory for good: in 16 bits, and multiplied so by the processor."""

import torch
from torch import Tensor, nn

from engine.model.passes.light.sparse import STAYING
from engine.model.products.compiling import has_compiler
from engine.weights.streaming.experts.binding import find_experts
from engine.weights.streaming.experts.followed import FollowedExperts, LastingParts, OneExpert, Use, is_followed


def keep_experts(
    layer: nn.Module, dtype: torch.dtype, few_rows: int, scratch: OneExpert | None = None
) -> nn.Module | None:
    """Keep the stacks of a layer's experts in `dtype`, where that holds their numbers, and follow what they compute.

    `few_rows`, `scratch`: see `FollowedExperts`. Returns the experts' module; None, and nothing is changed, if there
    are none that are followed.
    """
    experts = find_experts(layer)
    if experts is None or not is_followed(experts) or not has_compiler():
        return None
    module, stacks = experts.module, dict[str, Tensor]()
    for name, stack in module.named_parameters():
        narrow = stack.detach().to(dtype)
        held = narrow if torch.equal(narrow.to(stack.dtype), stack) else stack.detach()
        module._parameters[name] = nn.Parameter(held, requires_grad=False)
        stacks[experts.prefix + name] = held
    parts = [LastingParts({name: stack[each] for name, stack in stacks.items()}) for each in range(experts.count)]
    followed = FollowedExperts(experts, None, few_rows, Use(), scratch)
    staying = followed.staying(parts.__getitem__, lambda *_: None)
    module.__dict__["forward"] = lambda x, choice, weights: followed(x, choice, weights, parts.__getitem__)
    module.__dict__[STAYING] = lambda: staying
    return module
