"""Measures what is left of passes, trees and rounds once next to nothing is computed: what calls cost here."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
import transformers
from torch import Tensor, nn

from engine import accelerator
from engine.model.context import Context
from engine.model.network import wrap
from engine.model.passes.layer_hooks import Together
from engine.model.passes.light.likeliest import likeliest
from engine.protocol.options import SamplingOptions, SpeculationOptions
from engine.speculation.interfaces import Fixed, TreeBounds
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler
from engine.speculation.rounds import Answer, Speculation, Stopwatch, next_round
from engine.speculation.tuning.pass_time import PassTime
from engine.weights.streaming.experts.binding import find_experts
from engine.weights.streaming.experts.kept import keep_experts
from engine.weights.streaming.stored_weight import NarrowWeight, light_rows

NARROW_LAYERS = (2, 6)  # of two networks: the difference is what layers cost, the rest what a pass costs
NARROW_REPEATS = 6
MOST_SWEPT = 32 << 20  # bytes; more than a processor's own caches hold, of which a pass finds nothing more
CALL_ROWS = (1, 4, 16, 64)
MOST_IN_ONE_GO = 4  # rows of which layers that overhead counts for at all go together: see `light.chains`
STORED_SHAPE = {"intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 128}
"""That of the narrowest matrices that are multiplied as they are stored: `products.product.SMALLEST` numbers."""
STORED_EXPERT = 512
TREE_NODES = (8, 64)
TREE_REPEATS = 2
ROUND_REPEATS = 4


@dataclass(frozen=True, slots=True)
class PassOverhead:
    """Seconds of a `layer` against rows, and of a pass besides its layers."""

    layer: PassTime
    in_all: float


@dataclass(frozen=True, slots=True)
class Narrow:
    """What a network is made of that is as narrow as can be; `experts`, of which a token is routed to `chosen`.

    `few_rows`: up to how many rows its weights are multiplied as they are stored, 0 if they are not: then layers take
    fewer calls, and one if they are `known`. `row_bytes`: what a layer of the model itself reads for a row.
    """

    device: torch.device
    dtype: torch.dtype
    experts: int = 0
    chosen: int = 0
    few_rows: int = 0
    known: bool = True
    row_bytes: int = 0

    def context(self, layers: int, check: Callable[[], None]) -> Context:
        """A network of so many layers, behind a prompt; a mixture's router and many small products take longer."""
        shape = {
            "vocab_size": 64, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": layers,
            "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 128,
        }  # fmt: skip
        if self.few_rows:
            shape |= STORED_SHAPE
        config: transformers.PreTrainedConfig = transformers.LlamaConfig(**shape)
        if self.experts:
            # Of experts that are multiplied as they are stored it makes no difference how many others there are.
            count, width = (2 * self.chosen, STORED_EXPERT) if self.few_rows else (self.experts, 32)
            config = transformers.Qwen3MoeConfig(
                **shape, num_experts=count, num_experts_per_tok=self.chosen, moe_intermediate_size=width
            )
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=self.dtype)
        network = wrap(model.eval().requires_grad_(False).to(self.device), "sdpa", "overhead")
        for module in network.layers.modules() if not self.known else ():
            if type(module).__name__.endswith(("DecoderLayer", "Attention")):
                module.__dict__.pop("forward", None)
        if self.few_rows:
            _store_weights(network.layers, self.few_rows)
            followed = [keep_experts(layer, torch.bfloat16, self.few_rows) for layer in _rounded(network.layers)]
            apart = [experts for experts in followed if experts]
            network = replace(network, light_rows=light_rows(network.model, apart))
        context = Context(network, 128, check)
        context.prefill([1, 2, 3, 4])
        return context


def _store_weights(layers: nn.ModuleList, few_rows: int) -> None:
    """Have linear modules multiply with weights in bfloat16, as they are stored."""
    for module in layers.modules():
        if type(module) is nn.Linear:
            rounded = module.weight.bfloat16().to(module.weight.dtype)
            module._parameters["weight"] = NarrowWeight.of(rounded, torch.bfloat16, few_rows)  # type: ignore[assignment]  # no `Parameter`


def _rounded(layers: nn.ModuleList) -> nn.ModuleList:
    """Layers whose experts, if they have any, have weights that bfloat16 holds."""
    for layer in layers:
        experts = find_experts(layer)
        for stack in experts.module.parameters() if experts else ():
            stack.copy_(stack.bfloat16())
    return layers


def pass_overhead(narrow: Narrow, check: Callable[[], None]) -> PassOverhead:
    """The least times of passes through layers so narrow that nothing but overhead is left; `check` may raise.

    On a processor other memory is read ahead of each of them, or of those that are computed in one go, as much as a
    layer's weights: these empty the caches, and every line of what calls them takes longer then.
    """
    few, many = (narrow.context(layers, check) for layers in NARROW_LAYERS)
    sweep = _Sweep(min(MOST_SWEPT, narrow.row_bytes) if narrow.device.type == "cpu" else 0)
    for layer in (*few.network.layers, *many.network.layers):
        layer.register_forward_pre_hook(sweep)
    layers: list[float] = []
    rest: list[float] = []
    for rows in CALL_ROWS:
        sweep.together = "once" if rows <= MOST_IN_ONE_GO else None
        short, long = (_least_seconds(context, rows, sweep) for context in (few, many))
        layers.append(max(long - short, long / 100) / (NARROW_LAYERS[1] - NARROW_LAYERS[0]))
        rest.append(max(0.0, short - NARROW_LAYERS[0] * layers[-1]))
    return PassOverhead(PassTime(tuple(map(float, CALL_ROWS)), tuple(layers)), rest[0])


class _Sweep:
    """Called before a layer, or before several in one go: reads memory, and counts the seconds of that."""

    together: Together | None = None

    def __init__(self, nbytes: int) -> None:
        self._memory, self.seconds = torch.ones(nbytes // 4), 0.0

    def __call__(self, *_: object) -> None:
        begin = time.perf_counter()
        self._memory.sum()
        self.seconds += time.perf_counter() - begin


def _least_seconds(context: Context, rows: int, sweep: _Sweep) -> float:
    seconds = []
    for _ in range(NARROW_REPEATS):
        sweep.seconds, begin = 0.0, time.perf_counter()
        context.score(list(range(rows)), [-1] * rows)
        accelerator.wait_for_current_stream(context.network.device)
        seconds.append(time.perf_counter() - begin - sweep.seconds)
        context.rewind(4)
    return min(seconds)


@dataclass(slots=True)
class _Canned:
    """A draft whose logits are there already; counts its passes and their rows."""

    logits: Tensor
    length: int = 1
    passes: int = 0
    rows: int = field(default=0)

    def prefill(self, tokens: Sequence[int]) -> int:
        return len(tokens)

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        del parents
        self.passes += 1
        self.rows += len(tokens)
        return self.logits[: last or len(tokens)]

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        del nodes, rest


@torch.inference_mode()
def level_overhead(vocabulary: int, device: torch.device, check: Callable[[], None]) -> PassTime:
    """Seconds of growing a level of a tree, the draft's pass left out, against the level's nodes."""
    generator = torch.Generator().manual_seed(0)
    options = SpeculationOptions()
    sampler = Sampler(SamplingOptions(temperature=0.0), (), ())  # trees of this method are not drawn
    logits = (5 * torch.randn(options.batch, vocabulary, generator=generator)).to(device)
    found = []
    for nodes in TREE_NODES:
        times = []
        for _ in range(TREE_REPEATS + 1):  # the first one warms up
            check()
            draft = _Canned(logits)
            method = SpecExec(draft, sampler, options, vocabulary, likeliest=likeliest)
            begin = time.perf_counter()
            method.grow([0, 1], TreeBounds(nodes, options.depth))
            times.append((time.perf_counter() - begin) / draft.passes)
        found.append((draft.rows / draft.passes, min(times[1:])))
    (few, at_few), (many, at_many) = found
    node = max(0.0, (at_many - at_few) / max(many - few, 1.0))
    level = max(at_few - few * node, at_few / 10)
    return PassTime((1.0, float(options.batch)), (level + node, level + options.batch * node))


class _Mute:
    """Shows nothing of an answer, and never ends it."""

    stopped = False
    stop = ""

    def push(self, token: int) -> str:
        return str(token)

    def flush(self) -> str:
        return ""


def round_overhead(vocabulary: int, device: torch.device, check: Callable[[], None]) -> float:
    """The least seconds of what a round does besides growing a tree and the target's pass."""
    logits = torch.randn(2, vocabulary, generator=torch.Generator().manual_seed(0)).to(device)
    sampler, options = Sampler(SamplingOptions(temperature=0.0), (), ()), SpeculationOptions()
    found = []
    for _ in range(ROUND_REPEATS + 1):  # the first one warms up
        check()
        method = SpecExec(_Canned(logits), sampler, options, vocabulary)
        answer = Answer(_Mute(), set(), 8)
        speculation = Speculation(_Canned(logits), Fixed(method, 1, 1), answer, Stopwatch())
        result = next_round(speculation, [0, 1])
        found.append(result.seconds - result.draft_seconds - result.target_seconds)
    return max(0.0, min(found[1:]))
