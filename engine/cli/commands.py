"""Runs one command of the terminal and turns its failures into one line and an exit code."""

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from engine.cli import plan, prepare, serve, tree_shape
from engine.cli.arguments import build_parser
from engine.cli.model_options import load_options
from engine.cli.progress import say
from engine.errors import CoppiceError, TooLong
from engine.protocol.libraries import library_failure

_HINTS = {
    errno.ENOSPC: "Make room on the disk, or write elsewhere.",
    errno.EACCES: "Allow it, or choose another file or folder.",
    errno.EROFS: "Choose another file or folder.",
}
"""What to do where the system refuses something that no command expected; `CHECK` for all else."""
CHECK = "Check the disk, and who may write there."

EXIT_BAD_INPUT, EXIT_READER_GONE = 2, 141


def run(arguments: Sequence[str]) -> int:
    """Run `coppice-engine` with these arguments; returns its exit code."""
    try:
        _dispatch(build_parser().parse_args(arguments))
    except TooLong as error:  # its own hint is for the window
        _complain(f"{error.message} Shorten the prompt, or raise --context as far as the model allows.")
        return EXIT_BAD_INPUT
    except CoppiceError as error:
        _complain(" ".join(str(error).split()))
        return EXIT_BAD_INPUT
    except BrokenPipeError:  # the reader of our output has closed it
        _write_nowhere(sys.stdout)
        return EXIT_READER_GONE
    except MemoryError:
        _complain("Memory ran out. Close other programs, or choose a smaller model.")
        return EXIT_BAD_INPUT
    except OSError as error:  # a full disk, say, while the trace is written
        where = f"{error.filename}: " if error.filename else ""
        plain = f"{where}{error.strerror or error}. {_HINTS.get(error.errno or 0, CHECK)}"
        _complain(str(library_failure(str(error)) or plain))
        return EXIT_BAD_INPUT
    return 0


def _complain(words: str) -> None:
    try:
        say(f"error: {words}")
    except OSError:  # stderr lies on the full disk, too; the exit code tells all the same
        _write_nowhere(sys.stderr)


def _write_nowhere(stream: TextIO) -> None:
    """Have what the stream still holds fail no more, when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _dispatch(arguments: argparse.Namespace) -> None:
    # torch is imported only behind a command line that makes sense
    if arguments.command == "generate":
        from engine.cli.generate import generate  # noqa: PLC0415

        generate(arguments)
    elif arguments.command == "bench":
        from engine.cli.bench import bench  # noqa: PLC0415

        bench(arguments)
    elif arguments.command == "serve":
        options = serve.serve_options(arguments)
        keep, load = arguments.keep_bytes, load_options(arguments)
        serve.serve(options, load, keep_bytes=keep, as_json=arguments.json, quiet=arguments.quiet)
    else:
        {
            "plan": plan.plan,
            "prepare": prepare.prepare,
            "prepared": prepare.prepared,
            "tree-shape": tree_shape.tree_shape,
        }[arguments.command](arguments)
