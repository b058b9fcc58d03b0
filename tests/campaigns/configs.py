"""Changes config.json of every family, an entry at a time: `python -m tests.campaigns.configs [FAMILY ...]`.

Each number becomes 0, negative, huge or of another type, each kind of layer every other one that any family knows. The
network is then made, filled and run. Whatever is raised but a sentence is printed, and whatever takes too long or too
much memory; each family in a process of its own. POSIX only.
"""

import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

from engine.errors import CoppiceError
from engine.loading.oom_retry import GuardedContext
from engine.loading.probing import FirstPasses
from engine.model.architecture import open_architecture
from engine.model.checkpoint import Checkpoint
from engine.model.context import Context
from engine.model.network import wrap
from engine.model.weight_loader import WeightLoader
from tests.engine.family_models import families, tiny_config

CPU = torch.device("cpu")
MEMORY_BYTES = 3 << 30
PROCESSOR_SECONDS = 3.0
LARGEST = 30_000_000  # numbers: a model of more would need weights to match
TENSORS = dict.fromkeys(f"t{number}" for number in range(3000))  # as many as let configs pass
NUMBERS = (0, -1, 1, 2**31, 1.5, 1e9, "x", None)
KINDS = (
    "attention", "chunked_attention", "compressed_sparse_attention", "conv", "dense", "full", "full_attention",
    "hash_moe", "heavily_compressed_attention", "hybrid", "indexed_attention", "linear_attention", "mamba",
    "minimax_m3_sparse", "mlp", "moe", "recurrent", "shared", "sliding_attention", "sparse",
)  # fmt: skip
LEFT_OUT = frozenset({"architectures", "dtype", "id2label", "label2id", "model_type", "torch_dtype", "vision_config"})

Change = tuple[tuple[str, ...], Any]


class TooLong(BaseException):  # what happened; no handler of errors takes it
    """A case takes too much of the processor's time."""


def changes(config: dict[str, Any]) -> Iterator[Change]:
    """Every change of one entry: where it is, and what it becomes."""
    for path, value in _entries(config):
        if isinstance(value, bool) or value is None or isinstance(value, str):
            yield from ((path, new) for new in (0, 7, "x", True, False))
        elif isinstance(value, int | float):
            yield from ((path, new) for new in NUMBERS)
        elif value and isinstance(value[0], str):
            yield from ((path, [kind, *value[1:]]) for kind in KINDS)
            yield from ((path, [kind] * len(value)) for kind in KINDS)
            yield from ((path, new) for new in (value[:-1], [*value, value[0]], [1] * len(value), "x", []))
        else:
            yield from ((path, new) for new in ([], [0] * len(value), [-1] * max(1, len(value)), "x", None))


def _entries(value: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, item in value.items():
        if key.startswith("_") or key in LEFT_OUT:
            continue
        if isinstance(item, dict):
            yield from _entries(item, (*path, key))
        else:
            yield (*path, key), item


def run(config: dict[str, Any]) -> None:
    """Make the network of a config, fill it, and run passes over a prompt and a tree. Raises whatever they raise."""
    checkpoint = Checkpoint("model", "model", Path(), config, (), TENSORS)  # type: ignore[arg-type]  # never read
    architecture = open_architecture(checkpoint)
    model = architecture.build_on_meta(torch.float32)
    if sum(weight.numel() for weight in model.parameters()) > LARGEST:
        return
    WeightLoader(model, torch.float32, architecture.kind).rebuild_buffers(CPU)
    _fill(model)
    network = wrap(model, architecture.attention, "model")
    scorer = FirstPasses().of(GuardedContext(Context(network, 64), "the target"), "model", CPU)
    tokens = [token % max(1, network.vocabulary) for token in range(3, 24)]
    scorer.prefill(tokens)
    scorer.score(tokens[:3], [-1, 0, 0])
    scorer.keep([0, 2])
    scorer.score(tokens[:1], [-1])


def _fill(model: nn.Module) -> None:
    """Random weights in place of those on meta; what several modules share they go on sharing."""
    made: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None and weight.is_meta:
                random = torch.randn(weight.shape) * 0.1 if weight.is_floating_point() else torch.zeros(weight.shape)
                made.setdefault(id(weight), nn.Parameter(random.to(weight.dtype), requires_grad=False))
                module._parameters[name] = made[id(weight)]
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_meta:
                module._buffers[name] = torch.zeros(buffer.shape, dtype=buffer.dtype)


def outcome(config: dict[str, Any]) -> str:
    """What is wrong with how a config was taken; empty where nothing is."""
    signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
    try:
        run(config)
    except CoppiceError:
        return ""
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is what is looked for
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:100]} ({where.filename}:{where.lineno})"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def try_family(family: str) -> None:
    """Print what is wrong with any change of a family's tiny config."""
    try:
        usual = json.loads(tiny_config(family).to_json_string(use_diff=False))
    except Exception as error:  # noqa: BLE001  # of the library's own classes
        print(f"{family}: no tiny config: {error}", flush=True)
        return
    for path, value in changes(usual):
        config = deepcopy(usual)
        place = config
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        print(f"\r{family}: {'.'.join(path)[:60]:60}", end="", file=sys.stderr, flush=True)
        if wrong := outcome(config):
            print(f"{family}: {'.'.join(path)} = {str(value)[:80]}: {wrong}", flush=True)


def _too_long(_signal: int, _frame: FrameType | None) -> None:
    raise TooLong


def main() -> None:
    """Try every family, or those that are named."""
    torch.set_num_threads(1)  # forks would wait for threads that they do not have
    signal.signal(signal.SIGPROF, _too_long)
    for family in ("llama", "qwen3_moe", "qwen3_next", "deepseek_v4"):  # what these import, forks have
        run(json.loads(tiny_config(family).to_json_string(use_diff=False)))
    for family in sys.argv[1:] or families():
        if not (child := os.fork()):
            resource.setrlimit(resource.RLIMIT_AS, (_taken_bytes() + MEMORY_BYTES,) * 2)
            try_family(family)
            os._exit(0)
        if status := os.waitpid(child, 0)[1]:
            print(f"{family}: its process ended with {os.waitstatus_to_exitcode(status)}", flush=True)


def _taken_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) if sys.platform == "linux" else 0
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
