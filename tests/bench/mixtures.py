"""Passes over random mixtures in 4 bits: each of three ways of having experts, and the engine's own choice.

python -m tests.bench.mixtures [--shapes gpt_oss,qwen3_moe,glm4_moe,mixtral] [--gigabytes 0.3] [--rows 1,4,16,64]
    [--places memory,ssd] [--passes 5] [--cache 0.25] [--peer] [--threads 2] [--folder DIR] [--save FILE] [--json]

GGUF files in the proportions of published mixtures are written to the folder, once for each size, and kept there if it
was given. The ways take turns, pass by pass, over the same random trees; seconds are minima and medians. `whole`: all
experts of a layer are decoded; `single`: those in use are; `computed`: those in use are multiplied as they are stored,
if each has few rows. From SSD the first reads whole layers, past the page cache, and the others what their cache lacks.
Outputs: whether all logits of a way are the bits of `whole`, else by how much they differ at most, as a part of the
largest one. With `--peer`, llama.cpp (`pip install xllamacpp`) writes from the same file in turns with the engine, one
token per pass. The routing is random: no text favours any experts, which is the worst that a cache can meet.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from engine.cli.progress import say
from engine.loading.stored_layers import StoredLayers, in_shards
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.streamable_network import build_streamable
from engine.weights.planning.arrangement import Tier
from engine.weights.planning.expert_ways import Choose, ExpertWay, fastest_way
from engine.weights.planning.machine import FEW_ROWS
from engine.weights.streaming import layer_stream
from engine.weights.streaming.binding import Scratch
from engine.weights.streaming.experts import setup
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from engine.weights.streaming.stored_weight import light_rows, share_out_head
from tests.bench.experts import tree
from tests.bench.folders import made_folder
from tests.bench.mixtures_table import as_text
from tests.bench.peers import in_turns
from tests.bench.peers_table import PEER, Case, machine, ratio
from tests.bench.programs import NONE, AnswerError, Turn
from tests.bench.random_mixtures import LAYERS, SHAPES, VOCABULARY, write_random

CPU, DTYPE = torch.device("cpu"), torch.float32
CAPACITY = 256
PREFIX = list(range(100, 164))
AUTO = "auto"
WAYS: tuple[ExpertWay, ...] = ("whole", "single", "computed")
DECODED = ("whole", "single")  # as on a device; the processor, left alone, multiplies experts of few rows as they are
TIERS: dict[str, Tier] = {"memory": "device", "ssd": "ssd"}
SCRATCH = Scratch(CPU)  # of all contenders, which take turns: decoded layers of the real width take gigabytes
PEER_TOKENS = 16
PEER_TURNS = 3


def main() -> None:
    """Measure, and print a table or one JSON document."""
    arguments = _parser().parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as scratch:
        found = measure(arguments, Path(scratch))
    sys.stdout.write((json.dumps(found) if arguments.json else as_text(found)) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--gigabytes", type=float, default=0.3, help="of each mixture's experts, as they are stored")
    parser.add_argument(
        "--layers", type=int, default=LAYERS, help="of experts at least: fewer are wider, up to as wide as published"
    )
    parser.add_argument("--rows", default="1,4,16,64", help="tokens per pass")
    parser.add_argument("--places", default=",".join(TIERS))
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--cache", type=float, default=0.25, help="the part of all experts that the cache holds")
    parser.add_argument("--few-rows", type=int, default=FEW_ROWS, help="that are multiplied as weights are stored")
    parser.add_argument("--peer", action="store_true", help="llama.cpp on the same file, too")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--folder", type=made_folder, default=None, help="where the files are written and kept (a real disk)"
    )
    parser.add_argument("--save", type=Path, default=None)
    parser.add_argument("--json", action="store_true")
    return parser


def measure(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Rows for every mixture, place and number of rows; llama.cpp's in `peers`."""
    found: dict[str, Any] = {"machine": machine(arguments.threads, "auto", "random mixtures"), "rows": [], "peers": []}
    for name in arguments.shapes.split(","):
        path = _file(name, arguments.gigabytes, arguments.layers, arguments.folder or scratch)
        for place in filter(None, arguments.places.split(",")):
            found["rows"] += measured(name, path, place, arguments)
            _save(found, arguments.save)
        if arguments.peer:
            found["peers"].append(beside_peer(name, path, scratch, arguments.threads))
            _save(found, arguments.save)
    return found


def _save(found: Mapping[str, Any], path: Path | None) -> None:
    if path:  # after each: this takes long
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")


def _file(name: str, gigabytes: float, layers: int, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{gigabytes:g}-{layers}.gguf"
    if not path.exists():
        say(f"writing {path.name}")
        write_random(path.with_suffix(".part"), SHAPES[name], int(gigabytes * 1e9), layers).replace(path)
    return path


@dataclass(frozen=True, slots=True)
class Asked:
    """A tree and what it showed."""

    seconds: float
    logits: torch.Tensor


class Contender:
    """The file's network, whose experts come in one way, or as the engine chooses."""

    def __init__(self, way: ExpertWay | None, checkpoint: Checkpoint, place: str, cache: float, few_rows: int) -> None:
        """Open and load it; `way` is None for the engine's choice.

        `cache`: the part of its layers' bytes that single experts may take.
        """
        streamable = build_streamable(checkpoint, DTYPE, CPU)
        stored = in_shards(streamable.converter)
        assert stored, "layers of a GGUF file are streamed as they lie"
        options = StreamOptions(
            expert_cache_bytes=int(cache * _layer_bytes(stored)),
            choose=_always(way) if way else fastest_way,
            few_rows=few_rows,
        )
        tiers = [TIERS[place]] * len(stored.layouts)
        layers = list(streamable.network.layers)
        with ExitStack() as stack:
            if way in DECODED:
                stack.enter_context(patch.object(setup, "is_followed", return_value=False))
            stack.enter_context(patch.object(layer_stream, "Scratch", return_value=SCRATCH))
            self.stream = LayerStream(layers, stored.layouts, tiers, stored.decoders, options=options)
        for _ in self.stream.load():
            pass
        if way == "whole" and place == "memory":
            _decode_all(self.stream)
        apart = {*self.stream.followed_modules, *share_out_head(streamable.network.model)}
        network = replace(streamable.network, light_rows=light_rows(streamable.network.model, apart))
        self._context = Context(network, CAPACITY)
        self._context.prefill(PREFIX)

    def score(self, tokens: Sequence[int], parents: Sequence[int]) -> Asked:
        """One pass; nothing of it is kept."""
        begin = time.perf_counter()
        logits = self._context.score(list(tokens), list(parents))
        seconds = time.perf_counter() - begin
        self._context.rewind(len(PREFIX))
        return Asked(seconds, logits)


def _layer_bytes(stored: StoredLayers) -> int:
    return sum(layout.nbytes for layout in stored.layouts)


def _always(way: ExpertWay) -> Choose:
    return lambda _at: way


def _decode_all(stream: LayerStream) -> None:
    """Experts that stay in memory have no slots, and nobody is asked: they would be decoded one by one."""
    stream._experts.__dict__["_wants_single"] = lambda *_: False


def measured(name: str, path: Path, place: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each number of tokens per pass."""
    checkpoint = open_checkpoint(str(path))
    rows = []
    with ExitStack() as stack:
        contenders = {}
        for way in (*WAYS, None):
            say(f"{name}, {place}: loading {way or AUTO}")
            contender = Contender(way, checkpoint, place, arguments.cache, arguments.few_rows)
            stack.callback(contender.stream.close)
            contenders[way or AUTO] = contender
        for count in map(int, arguments.rows.split(",")):
            trees = [_tree(count, seed) for seed in range(arguments.passes + 1)]
            row = {"shape": name, "place": place, "rows": count, "file_bytes": path.stat().st_size}
            rows.append(row | _compared(contenders, trees))
            say(f"{name}, {place}, {count} rows: auto over the best {rows[-1]['auto_over_best']:.2f}")
    return rows


def _tree(rows: int, seed: int) -> tuple[list[int], list[int]]:
    tokens, parents = tree(rows, seed)
    return [token % VOCABULARY for token in tokens], parents


def _compared(contenders: Mapping[str, Contender], trees: Sequence[tuple[list[int], list[int]]]) -> dict[str, Any]:
    """Seconds of every way, the first tree left out, and whether what it found is what whole layers give."""
    ways = list(contenders)
    asked: dict[str, list[Asked]] = {way: [] for way in ways}
    for number, (tokens, parents) in enumerate(trees):
        for way in reversed(ways) if number % 2 else ways:
            asked[way].append(contenders[way].score(tokens, parents))
    figures = {way: _figures(passes, asked["whole"]) for way, passes in asked.items()}
    best = {key: min(figures[way][key] for way in WAYS) for key in ("fastest", "median")}
    return {
        "ways": figures,
        "auto_over_best": best["fastest"] / figures[AUTO]["fastest"],
        "auto_over_best_median": best["median"] / figures[AUTO]["median"],
    }


def _figures(passes: Sequence[Asked], whole: Sequence[Asked]) -> dict[str, Any]:
    seconds = [each.seconds for each in passes[1:]]
    apart = [
        float((own.logits - other.logits).abs().max() / other.logits.abs().max())
        for own, other in zip(passes, whole, strict=True)
    ]
    return {
        "fastest": min(seconds),
        "median": statistics.median(seconds),
        "seconds": seconds,
        "same_bits": all(torch.equal(own.logits, other.logits) for own, other in zip(passes, whole, strict=True)),
        "difference": max(apart),
    }


def beside_peer(name: str, path: Path, scratch: Path, threads: int) -> dict[str, Any]:
    """Tokens per second of both programs, one token per pass; why, if one of them does not answer."""
    case = Case(SHAPES[name].kind, path, path, scratch)
    setups = {program: case.setup(program, NONE, threads) for program in (PEER, "Coppice")}
    prompts = [tuple(range(100 + number, 132 + number)) for number in range(PEER_TURNS + 1)]
    try:
        turns = in_turns(case, [replace(setup, draft="") for setup in setups.values()], prompts, PEER_TOKENS)
    except AnswerError as error:
        return {"shape": name, "left_out": str(error)}
    done: dict[str, list[Turn]] = {setup.program: made for setup, made in turns.items()}
    rates = {program: statistics.median(turn.tokens_per_second for turn in made) for program, made in done.items()}
    same = sum(ours.tokens == theirs.tokens for ours, theirs in zip(done["Coppice"], done[PEER], strict=True))
    return {
        "shape": name,
        "tokens_per_second": rates,
        "over_peer": ratio(done["Coppice"], done[PEER]),
        "same_texts": same,
        "texts": len(prompts) - 1,
    }


if __name__ == "__main__":
    main()
