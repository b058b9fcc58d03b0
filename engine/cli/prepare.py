"""`prepare` converts a model into layers that stream; `prepared` lists what was prepared, checks or deletes it."""

import argparse
import shutil
import sys
from pathlib import Path

from engine.cli import model_options
from engine.cli.progress import print_json, say, tell
from engine.errors import Cancellation, InputError
from engine.protocol.options import LoadOptions

WEIGHTS = ("nf4", "int8", "bfloat16", "float16", "float32")


def add_prepare_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `prepare`."""
    add = parser.add_argument
    model_options.add_target(parser)
    add("--weights", choices=WEIGHTS, default="nf4", help="how weights are stored (default: %(default)s)")
    add("--to", metavar="DIR", type=Path, default=None, help="where to (default: a folder in the cache)")
    model_options.add_output(parser)


def add_prepared_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `prepared`."""
    parser.add_argument("--delete", metavar="NAME", help="delete this prepared model")
    parser.add_argument("--verify", metavar="NAME", help="read this prepared model whole, and compare its hashes")
    model_options.add_output(parser)


def prepare(arguments: argparse.Namespace) -> None:
    """Convert one layer after the other; a run that was stopped is taken up. Raises `CoppiceError` for bad input."""
    from engine.loading.preparation import prepare_model, prepared_folder  # noqa: PLC0415  # torch comes with it
    from engine.loading.store import cache_folder  # noqa: PLC0415
    from engine.model.checkpoint import open_checkpoint  # noqa: PLC0415
    from engine.model.device import choose_device  # noqa: PLC0415

    checkpoint = open_checkpoint(arguments.target, role="target")
    folder = arguments.to or prepared_folder(cache_folder(_options(arguments)), checkpoint, arguments.weights)
    cancellation = Cancellation()
    cancellation.begin(1)
    done = None
    device = choose_device("auto")
    for done in prepare_model(checkpoint, arguments.weights, folder, cancellation, device):
        left = "" if done.seconds_left is None else f", {done.seconds_left:.0f} s left"
        say(f"layer {done.layers} of {done.total}{' was there' if done.kept else ''}{left}")
    if arguments.json:
        print_json({"folder": str(folder), "layers": done.total if done else 0, "bytes": _size(folder)})
    else:
        tell(f"{folder}\n")


def prepared(arguments: argparse.Namespace) -> None:
    """List the cache, or check or delete one of its models. Raises `CoppiceError` for a name that is not there."""
    from engine.loading.store import cache_folder  # noqa: PLC0415
    from engine.weights.planning.machine import gib  # noqa: PLC0415
    from engine.weights.store.prepared_model import delete_prepared, list_prepared, verify  # noqa: PLC0415

    cache = cache_folder(_options(arguments))
    models = {model.folder.name: model for model in list_prepared(cache)}
    for name in (arguments.delete, arguments.verify):
        if name is not None and name not in models:
            raise InputError(f"No model '{name}' is prepared.", "See `coppice-engine prepared` for those that are.")
    if arguments.verify:
        cancellation = Cancellation()
        cancellation.begin(1)
        for _ in verify(models[arguments.verify], cancellation):
            pass
    if arguments.delete:
        delete_prepared(models.pop(arguments.delete).folder)
    rows = [
        {"name": name, "folder": str(model.folder), "bytes": model.nbytes, "complete": model.complete}
        for name, model in models.items()
    ]
    if arguments.json:
        print_json({"cache": str(cache), "free": _free(cache), "models": rows})
        return
    for name, model in models.items():
        tell(f"{gib(model.nbytes):>10}  {name}{'' if model.complete else '  (not complete)'}\n")
    if not models:
        sys.stdout.write(f"Nothing is prepared in {cache}.\n")


def _options(arguments: argparse.Namespace) -> LoadOptions:
    return LoadOptions(cache_dir=arguments.cache_dir)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def _free(cache: Path) -> int:
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    return shutil.disk_usage(existing).free
