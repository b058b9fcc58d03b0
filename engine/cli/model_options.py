"""The options of a pair, which several commands have, and the `LoadOptions` that they become."""

import argparse
from collections.abc import Sequence

from engine.cli import values
from engine.protocol.options import ACTIVATIONS, AUTO_ROOM, DEVICES, EMBEDDED, KV, PLACES, WEIGHTS, LoadOptions

TARGET = "embedded, a folder, a GGUF file, or the id of a downloaded model (default: %(default)s)"
DRAFT = (
    "the same, self (copies of what streams, in 4 bits), heads (the target's own), SOURCE+heads (both), or none "
    "(default: embedded beside the embedded target, else none)"
)
KINDS = "number type of the target's weights; auto as the device computes best (default: %(default)s)"
CONTEXT = "longest prompt and answer together (default: what the model reads and memory holds, 8192 at most)"
KEPT = (
    "keys and values: auto as they are computed; 8 in 8 bits, each within 1/127 of the largest beside it; fit in 8 "
    "bits where they do not fit otherwise (default: %(default)s)"
)
ROUNDED = (
    "int8 rounds what quantised weights are multiplied with to 8 bits, as llama.cpp does: faster on processors without "
    "bfloat16 units; the text can differ where two tokens are nearly equally likely (default: %(default)s)"
)
VRAM = "GPU memory to take at most, in GiB (default: what is free)"
RAM = "RAM to take at most, in GiB (default: what is free)"
CACHE = "keeps what was measured, prepared and read (default: the folder that this system has for caches)"


def add_target(parser: argparse.ArgumentParser) -> None:
    """Which model."""
    parser.add_argument("--target", default=EMBEDDED, metavar="SOURCE", help=TARGET)


def add_pair(parser: argparse.ArgumentParser, force: str) -> None:
    """Which pair, and where to; `force`: what that option is good for."""
    add = parser.add_argument
    add_target(parser)
    add("--draft", default="auto", metavar="SOURCE", help=DRAFT)
    add("--device", choices=DEVICES, default="auto", help="where to compute (default: %(default)s)")
    add("--place", choices=PLACES, default="auto", help="where the layers lie (default: by plan)")
    add("--vram-limit", type=values.gib, default=0, metavar="GIB", help=VRAM)
    add("--ram-limit", type=values.gib, default=0, metavar="GIB", help=RAM)
    add("--force", action="store_true", help=force)
    add("--weights", choices=WEIGHTS, default="auto", help=KINDS)
    add("--context", type=int, default=0, metavar="TOKENS", help=CONTEXT)
    add("--kv", choices=KV, default="auto", help=KEPT)
    add("--activations", choices=ACTIVATIONS, default="exact", help=ROUNDED)
    add_output(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """The folder that is kept, and the form of what is told."""
    parser.add_argument("--cache-dir", default="", metavar="DIR", help=CACHE)
    parser.add_argument("--json", action="store_true", help="exactly one JSON document on stdout")


def load_options(arguments: argparse.Namespace) -> LoadOptions:
    """The pair that the arguments ask for."""
    return LoadOptions(
        target=arguments.target,
        draft=arguments.draft,
        device=arguments.device,
        weights=arguments.weights,
        context_tokens=arguments.context,
        place=arguments.place,
        vram_limit_bytes=arguments.vram_limit,
        ram_limit_bytes=arguments.ram_limit,
        force=arguments.force,
        overlap=not getattr(arguments, "no_overlap", False),
        budget=_most_nodes(getattr(arguments, "budgets", None) or [arguments.budget]),
        kv=arguments.kv,
        activations=arguments.activations,
        cache_dir=arguments.cache_dir,
    )


def _most_nodes(budgets: Sequence[int]) -> int:
    """The largest tree that room is needed for; 0 where what is kept for automatic ones is enough."""
    largest = max(budgets)
    return 0 if 0 in budgets and largest <= AUTO_ROOM else largest
