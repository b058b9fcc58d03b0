"""What it costs to be looked at: tokens per second with nothing watched, and with all that the tree panel asks for.

python -m tests.bench.watching [--place ssd] [--gigabytes 1.5] [--budget 64] [--tokens 100] [--repeats 5] [--json]

Both in turn, by the same loaded pair; events are pickled as on their way to the application. `--gigabytes` inflates
the embedded target to that size, so that its passes are slow enough for trees and layers to be told of.
"""

import argparse
import json
import pickle
import statistics
import sys
import tempfile
from pathlib import Path

from engine.engine import Engine, load
from engine.errors import Cancellation
from engine.loading.pair import open_pair
from engine.observing.watcher import Watcher
from engine.protocol.messages import ChatMessage, Event, Finished, Statistics
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.protocol.watching import Watch
from tests.bench.inflate import EMBEDDED, inflate

STORY = (ChatMessage("user", "Tell me a story about a dragon."),)
EVERYTHING = Watch(verdicts=True, drafts=True, layers=True)


class Told:
    """Counts what is told beside the rounds."""

    def __init__(self) -> None:
        self.events = self.bytes = 0

    def post(self, event: Event) -> None:
        """As the process would send it."""
        self.events += 1
        self.bytes += len(pickle.dumps(event))


def main() -> None:
    """Measure and print."""
    arguments = _parse()
    with tempfile.TemporaryDirectory() as folder:
        target, draft = "embedded", ""
        if arguments.gigabytes:
            target = str(inflate(Path(folder) / "target", round(arguments.gigabytes * 1e9)))
            draft = str(EMBEDDED.parent / "demo-draft")
        options = LoadOptions(target, draft or "auto", place=arguments.place, device="cpu")
        engine = _loaded(options)
        rows = {name: list[Statistics]() for name in ("unwatched", "watched")}
        told = Told()
        _answer(engine, Watch(), arguments, Told())  # the first one is slower, whoever looks
        for _ in range(arguments.repeats):
            rows["unwatched"].append(_answer(engine, Watch(), arguments, Told()))
            rows["watched"].append(_answer(engine, EVERYTHING, arguments, told))
        engine.close()
    rates = {name: [each.tokens_per_second for each in found] for name, found in rows.items()}
    figures = {
        **{f"{name}_tokens_per_second": round(statistics.median(found), 2) for name, found in rates.items()},
        "ratio": round(statistics.median(rates["watched"]) / statistics.median(rates["unwatched"]), 3),
        "seconds_per_pass": round(statistics.median(s.seconds.decode / s.passes for s in rows["unwatched"]), 3),
        "events_per_answer": round(told.events / arguments.repeats, 1),
        "kilobytes_per_answer": round(told.bytes / arguments.repeats / 1e3, 1),
    }
    print(json.dumps(figures) if arguments.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--place", default="auto")
    parser.add_argument("--gigabytes", type=float, default=0.0)
    parser.add_argument("--budget", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _loaded(options: LoadOptions) -> Engine:
    cancellation = Cancellation()
    cancellation.begin(1)
    steps = load(1, open_pair(options), cancellation)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            engine: Engine = end.value
            return engine


def _answer(engine: Engine, watch: Watch, arguments: argparse.Namespace, told: Told) -> Statistics:
    watcher = Watcher(told.post)
    watcher.watch(watch)
    options = GenerateOptions(
        SamplingOptions(),
        SpeculationOptions(method="specexec", budget=arguments.budget),
        max_new_tokens=arguments.tokens,
        ignore_eos=True,
    )
    for event in engine.generate(1, engine.prompt(STORY), options, watcher):
        if isinstance(event, Finished) and event.statistics:
            return event.statistics
    sys.exit("error: the answer did not end.")


if __name__ == "__main__":
    main()
