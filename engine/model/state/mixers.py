"""Lets transformers' modules that keep a state read token trees: their own code, with two functions replaced."""

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import ACT2FN

from engine.model.shape import no_tree
from engine.model.state.gated_delta import gated_delta_tree
from engine.model.state.lightning import LightningMixer
from engine.model.state.mamba1 import mamba1_advance, mamba1_tree
from engine.model.state.mamba2 import mamba2_advance, mamba2_tree, time_steps
from engine.model.state.node_mixer import PER_NODE, NodeMixer
from engine.model.state.state_layer import StateLayer
from engine.model.state.tree_paths import chain_generations
from engine.protocol.sentences import say

TAIL, STATE = "update_conv_state", "update_recurrent_state"  # what modules that keep a state call of a cache
CONVOLUTION = "causal_conv1d_fn"


def _convolve(
    layer: StateLayer,
    hidden_states: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    **_kwargs: Any,
) -> Tensor:
    """In place of `causal_conv1d_fn`; `hidden_states` are what `update_conv_state` returned."""
    output = layer.convolve(weight, bias)
    return (output if activation is None else ACT2FN[activation](output)).to(hidden_states.dtype)


def _gated_delta(
    layer: StateLayer, query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, **_kwargs: Any
) -> tuple[Tensor, Tensor]:
    """In place of `torch_chunk_gated_delta_rule` and of `chunk_kimi_delta_attention`."""
    assert layer.tree is not None, "only trees are scanned here"
    state = layer.state(len(value), value.shape[2], key.shape[3], value.shape[3], device=value.device)
    output, writes = gated_delta_tree(query, key, value, g, beta, state, layer.tree.paths, layer.writes)
    layer.add(writes)
    return output, state


def _mamba2(
    layer: StateLayer, hidden_states: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, **options: Any
) -> tuple[Tensor, Tensor]:
    """In place of `mamba2_chunk_scan`, which takes a, b and c as A, B and C; the modules do not name them."""
    assert layer.tree is not None, "only trees are scanned here"
    state = layer.state(len(b), *hidden_states.shape[2:], b.shape[3], device=b.device)
    steps = time_steps(dt, options["dt_bias"], options["dt_limit"], layer.tree.of_prompt())
    output, writes = mamba2_tree(hidden_states, steps, a, b, c, options["D"], state, layer.tree.paths, layer.writes)
    layer.add(writes, mamba2_advance)
    return output, state


def _mamba1(
    layer: StateLayer, hidden_states: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, **options: Any
) -> tuple[Tensor, Tensor]:
    """In place of `mamba_selective_scan`, also in chains: that one begins every text anew."""
    tree = layer.tree
    generations = tree.generations() if tree is not None else chain_generations(hidden_states.shape[2], b.device)
    state = layer.state(*hidden_states.shape[:2], a.shape[1], device=b.device)
    bias = options["delta_bias"]
    steps = functional.softplus(dt if bias is None else dt + bias.to(dt.dtype)[:, None]).mT
    output, writes = mamba1_tree(hidden_states.mT, steps, a, b.mT, c.mT, state, generations, layer.writes)
    along = partial(mamba1_advance, a)
    if tree is not None:
        layer.add(writes, along)
    else:
        state = along(state, writes, range(len(writes)))
    output = output.mT.to(hidden_states.dtype) + hidden_states * options["D"][:, None]
    return output * functional.silu(options["z"]), state


# By the function of transformers that it replaces.
SCANS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "torch_chunk_gated_delta_rule": _gated_delta,
    "chunk_kimi_delta_attention": _gated_delta,
    "mamba2_chunk_scan": _mamba2,
    "mamba_selective_scan": _mamba1,
}
# By the names of transformers' classes: modules that keep a state and are replaced as a whole.
WHOLE: dict[str, Callable[[Any], Callable[..., Any]]] = {"MiniMaxLightningAttention": LightningMixer}
IN_CHAINS = frozenset({"mamba_selective_scan"})  # it begins every text anew, so that it cannot go on with one


class TreeMixer:
    """`forward` of one module that keeps a state, for chains and trees."""

    def __init__(self, module: Any, replaced: Iterable[str]) -> None:
        self._module = module
        self._layer: StateLayer | None = None
        self._chain: Callable[..., Any] = module.forward
        replaced = set(replaced)
        self._tree = self._with(replaced)
        self._cached_chain = self._with(replaced & IN_CHAINS) if replaced & IN_CHAINS else self._chain

    def _with(self, replaced: Iterable[str]) -> Callable[..., Any]:
        """The module's own `forward` with other functions of these names."""
        plain = _code_of(self._module)
        known: dict[str, Callable[..., Any]] = {**SCANS, CONVOLUTION: _convolve}
        functions = {name: partial(self._call, known[name]) for name in replaced}
        made = FunctionType(plain.__code__, {**plain.__globals__, **functions}, closure=plain.__closure__)
        made.__defaults__, made.__kwdefaults__ = plain.__defaults__, plain.__kwdefaults__
        return MethodType(made, self._module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As the module's own `forward`."""
        cache = kwargs.get("cache_params", kwargs.get("past_key_values"))
        layer = None if cache is None else cache.layers[self._module.layer_idx]
        if not isinstance(layer, StateLayer):
            return self._chain(*args, **kwargs)
        self._layer = layer
        try:
            return (self._cached_chain if layer.tree is None else self._tree)(*args, **kwargs)
        finally:
            self._layer = None

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(self._layer, *args, **kwargs)


def read_trees(layers: Iterable[nn.Module], name: str) -> None:
    """Make all modules in these layers that keep a state read trees, where they do not yet.

    Raises `ModelError` for modules of a kind that is not known; `name` is the model's.
    """
    for layer in layers:
        apart = [module for module in layer.modules() if type(module).__name__ in PER_NODE]
        for module in apart:
            if not isinstance(module.forward, NodeMixer):
                module.forward = NodeMixer(module)
        inside = {part for module in apart for part in module.modules()}
        for module in layer.modules():
            if (mixer := WHOLE.get(type(module).__name__)) and not isinstance(module.forward, LightningMixer):
                module.forward = mixer(module)
        for module in filter(lambda module: module not in inside, layer.modules()):
            called = set(_code_of(module).__code__.co_names) if hasattr(type(module), "forward") else set()
            if not called & {TAIL, STATE} or isinstance(module.forward, TreeMixer):
                continue
            convolutions, scans = called & {CONVOLUTION}, called & SCANS.keys()
            if (TAIL in called and not convolutions) or (STATE in called and not scans):
                raise no_tree(name, say("it keeps a recurrent state of a kind that is not known"))
            module.forward = TreeMixer(module, convolutions | scans)


def _code_of(module: nn.Module) -> Any:
    """The function that a module's class has for `forward`, without decorators."""
    return inspect.unwrap(type(module).forward)
