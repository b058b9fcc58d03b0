"""What a decoder layer costs besides its arithmetic: the calls, the hooks, the cache, all that size does not change."""

import statistics
import time
from collections.abc import Callable

import torch
import transformers

from engine.model.context import Context
from engine.model.network import wrap

LAYERS = 4
REPEATS = 12


def layer_overhead_seconds(device: torch.device, dtype: torch.dtype, check: Callable[[], None]) -> float:
    """The median time of a layer so narrow that nothing but overhead is left; `check` may raise."""
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        max_position_embeddings=64,
    )
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=dtype)
    network = wrap(model.eval().requires_grad_(False).to(device), "sdpa", "overhead")
    context = Context(network, 64, check)
    context.prefill([1, 2, 3, 4])
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        context.score([5], [-1])
        seconds.append(time.perf_counter() - begin)
        context.rewind(4)
    return statistics.median(seconds) / LAYERS
