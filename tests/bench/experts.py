"""A pass over a mixture that streams from SSD: whole layers, single experts, and the way that the engine chooses.

python -m tests.bench.experts [--shape qwen3_moe] [--rows 1,8,64] [--passes 4] [--cache 0.25] [--folder DIR] [--json]

The weights are random, and so is the routing: no text favours any experts, which is the worst that a cache can meet.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from engine.model.context import Context
from engine.model.network import Network, find_layers, wrap
from engine.weights.store.layer_file import read_layout, write_layer
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from tests.bench.folders import made_folder
from tests.engine.weights.reading import cache_use

CPU, DTYPE = torch.device("cpu"), torch.bfloat16
VOCABULARY = 8192
PREFIX = list(range(100, 164))
REST_SECONDS = 1.5  # until another contender's rings are full, and its thread no longer reads

BASE = {
    "vocab_size": VOCABULARY, "num_attention_heads": 16, "num_key_value_heads": 4, "tie_word_embeddings": False,
    "max_position_embeddings": 4096, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": 128,
}  # fmt: skip
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {"hidden_size": 1024, "moe_intermediate_size": 384, "num_experts": 128, "num_experts_per_tok": 8},
    ),
    "mixtral": (
        "MixtralConfig",
        {"hidden_size": 2048, "intermediate_size": 3584, "num_local_experts": 8, "num_experts_per_tok": 2},
    ),
}


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="qwen3_moe")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--rows", default="1,8,64", help="tokens per pass")
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--cache", type=float, default=0.25, help="the part of all experts that the cache holds")
    parser.add_argument(
        "--folder", type=made_folder, default=None, help="where the layers are written and read (a real disk)"
    )
    parser.add_argument("--json", action="store_true", help="on one line")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        rows = [int(count) for count in arguments.rows.split(",")]
        found = measure(Path(scratch), arguments.shape, arguments.layers, rows, arguments.passes, arguments.cache)
    json.dump(found, sys.stdout, indent=None if arguments.json else 2)
    sys.stdout.write("\n")


def measure(
    folder: Path, shape: str, layers: int, row_counts: Sequence[int], passes: int, cache: float
) -> dict[str, Any]:
    """All figures for one model; contenders take turns, and medians are told."""
    resident = random_network(shape, layers)
    paths = [folder / f"{index}.safetensors" for index in range(len(resident.layers))]
    for index, (path, layer) in enumerate(zip(paths, resident.layers, strict=True)):
        write_layer(path, index, dict(layer.state_dict()))
    layouts = [read_layout(path) for path in paths]
    model_bytes = sum(layout.nbytes for layout in layouts)
    cache_bytes = int(cache * model_bytes)
    contenders = {
        "whole": Contender(resident, layouts, StreamOptions()),
        "single": Contender(
            resident, layouts, StreamOptions(expert_cache_bytes=cache_bytes, choose=lambda _: "single")
        ),
        "chosen": Contender(resident, layouts, StreamOptions(expert_cache_bytes=cache_bytes)),
    }
    alone = Context(resident, 512)
    alone.prefill(PREFIX)
    found: dict[str, Any] = {
        "shape": shape,
        "layers": layers,
        "model_bytes": model_bytes,
        "cache_bytes": cache_bytes,
        "threads": torch.get_num_threads(),
        "rows": [],
    }
    for rows in row_counts:
        trees = [tree(rows, seed) for seed in range(passes + 1)]
        time.sleep(REST_SECONDS)
        entry: dict[str, Any] = {
            "rows": rows,
            "compute_seconds": statistics.median(_score(alone, *t)[0] for t in trees),
        }
        for name, contender in contenders.items():
            time.sleep(REST_SECONDS)
            entry[name] = contender.run(trees)
        expected = _score(alone, *trees[-1])[1]
        assert all(torch.equal(contender.logits, expected) for contender in contenders.values()), "another result"
        found["rows"].append(entry)
    for contender in contenders.values():
        contender.stream.close()
    return found


class Contender:
    """The model, streamed in one of the ways."""

    def __init__(self, resident: Network, layouts: Sequence[LayerLayout], options: StreamOptions) -> None:
        network = without_layers(resident)
        self.stream = LayerStream(list(network.layers), layouts, ["ssd"] * len(layouts), options=options)
        for _ in self.stream.load():
            pass
        self.context = Context(network, 512)
        self.context.prefill(PREFIX)
        self.logits = torch.empty(0)

    def run(self, trees: Sequence[tuple[list[int], list[int]]]) -> dict[str, Any]:
        """Pass upon pass; the first, whose layers may be there already, does not count."""
        seconds, moved, hits, used = [], [], 0, 0
        for number, (tokens, parents) in enumerate(trees):
            before = self.stream.bytes_streamed, *cache_use(self.stream)
            took, self.logits = _score(self.context, tokens, parents)
            if number:
                seconds.append(took)
                moved.append(self.stream.bytes_streamed - before[0])
                found, missed = cache_use(self.stream)
                hits += found - before[1]
                used += found + missed - before[1] - before[2]
        return {
            "seconds": statistics.median(seconds),
            "seconds_of_each": seconds,
            "bytes": statistics.median(moved),
            "experts_used_singly": used / len(seconds),
            "hit_share": hits / used if used else 0.0,
        }


def tree(rows: int, seed: int) -> tuple[list[int], list[int]]:
    """Random tokens below one root: every pass is routed to other experts."""
    chance = random.Random(1000 * rows + seed)
    return [chance.randrange(VOCABULARY) for _ in range(rows)], [-1] + [0] * (rows - 1)


def random_network(shape: str, layers: int) -> Network:
    """A model of random weights in memory, whose routers spread tokens evenly."""
    config_class, own = SHAPES[shape]
    config = getattr(transformers, config_class)(**BASE, **own, num_hidden_layers=layers)
    torch.manual_seed(0)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=DTYPE, attn_implementation="sdpa")
    model.to_empty(device="cpu").eval().requires_grad_(False)
    for module in model.modules():
        model._init_weights(module)  # buffers that no checkpoint holds
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.normal_(0, 0.02)
    model.get_input_embeddings().weight.normal_(0, 1)  # so large that a token, not its context, decides on its experts
    return wrap(model, "sdpa", shape)


def without_layers(resident: Network) -> Network:
    """The same network, whose layers are on meta and everything else shared."""
    with torch.device("meta"):
        ghost = transformers.AutoModelForCausalLM.from_config(
            resident.model.config, dtype=DTYPE, attn_implementation="sdpa"
        )
    inside = {id(module) for module in find_layers(ghost).modules()}
    originals = dict(resident.model.named_modules())
    for name, module in ghost.eval().requires_grad_(False).named_modules():
        if id(module) not in inside:
            _share(originals[name], module)
    return wrap(ghost, "sdpa", "ghost")


def _share(original: nn.Module, module: nn.Module) -> None:
    module._parameters.update(original._parameters)
    module._buffers.update(original._buffers)


def _score(context: Context, tokens: list[int], parents: list[int]) -> tuple[float, torch.Tensor]:
    begin = time.perf_counter()
    logits = context.score(tokens, parents, last=1)
    seconds = time.perf_counter() - begin
    context.rewind(len(PREFIX))
    return seconds, logits


if __name__ == "__main__":
    main()
