"""Experts that are stored one by one, of networks that the library knows with all of them in one tensor alone.

Programs that quantise linear layers, as llm-compressor does, make such layers of all experts, and store them so.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from transformers.core_model_loading import Concatenate, MergeModulelist, Transpose, WeightConverter

UP, DOWN = "gate_up_proj", "down_proj"
TURNED = (1, 2)  # where inputs come before outputs


def converters_for(model: Any, known: Iterable[Any]) -> list[WeightConverter]:
    """What puts gates, ups and downs of single experts together as the model has them; the library knows `known`.

    Empty where the library itself does that, and where it cannot be told from the shapes how they belong together.
    """
    if any(".*." in pattern for transform in known for pattern in transform.source_patterns):
        return []
    turned = {_are_turned(module) for name, module in model.named_modules() if name.rpartition(".")[2] == "experts"}
    way = turned.pop() if len(turned) == 1 else None
    return [] if way is None else list(_converters(way))


def _are_turned(experts: Any) -> bool | None:
    """Whether inputs come before outputs; None for experts of another kind."""
    weights = dict(experts.named_parameters())
    if weights.keys() != {UP, DOWN} or not getattr(experts, "is_concatenated", True):
        return None
    (_, *up), (_, *down) = weights[UP].shape, weights[DOWN].shape
    if len(up) != 2 or len(down) != 2:
        return None
    straight, turned = up == [2 * down[1], down[0]], up == [down[1], 2 * down[0]]
    return turned if straight or turned else None


def _converters(turned: bool) -> Iterator[WeightConverter]:
    last = [Transpose(*TURNED)] if turned else []
    gates = [f"experts.*.{name}.weight" for name in ("gate_proj", "up_proj")]
    yield WeightConverter(gates, f"experts.{UP}", [MergeModulelist(0), Concatenate(1), *last])
    yield WeightConverter(f"experts.*.{DOWN}.weight", f"experts.{DOWN}", [MergeModulelist(0), *last])
