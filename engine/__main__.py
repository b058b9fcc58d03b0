"""`python -m engine` and the script `coppice-engine`: the engine on a terminal."""

import io
import os
import sys
from collections.abc import Sequence
from functools import partial

EXIT_BAD_INPUT, EXIT_INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, 2 for bad input, 130 when interrupted."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # also while the commands are imported, which takes most of a short one
        exec("")  # noqa: S102  # Python notes one that leaves an `exec` of some library, and would end by the signal
        return EXIT_INTERRUPTED
    except ModuleNotFoundError as error:
        from engine.errors import no_package  # noqa: PLC0415  # as the commands

        print(no_package(error), file=sys.stderr)  # noqa: T201  # a terminal's job
        return EXIT_BAD_INPUT


def _run(arguments: Sequence[str]) -> int:
    _replace_closed_streams()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if isinstance(sys.stdout, io.TextIOWrapper):  # letters that its encoding lacks are written as stderr writes them
        sys.stdout.reconfigure(errors="backslashreplace")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # one text at a time: more threads would have no work
    from engine.files import let_many_files_open  # noqa: PLC0415  # as the commands
    from engine.idle_threads import ask_for_fast_cores, let_idle_threads_sleep  # noqa: PLC0415
    from engine.loading.out_of_memory import let_gpu_segments_grow  # noqa: PLC0415

    let_gpu_segments_grow()
    let_idle_threads_sleep()
    ask_for_fast_cores()
    let_many_files_open()
    from engine.cli.commands import run  # noqa: PLC0415  # after the environment is set

    return run(arguments)


def _replace_closed_streams() -> None:
    """What a shell has closed is None: nothing could be written there, and errors would be printed to stdout."""
    nowhere = partial(open, os.devnull, "w", encoding="utf-8", errors="backslashreplace")
    sys.stdout, sys.stderr = sys.stdout or nowhere(), sys.stderr or nowhere()


if __name__ == "__main__":
    sys.exit(main())
