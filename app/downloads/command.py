"""`coppice download`: a model from the hub, without a window, with the same code as the dialog."""

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Protocol

from app.downloads.control import StopKind
from app.downloads.dependencies import Dependencies
from app.downloads.download import Download
from app.downloads.progress import Progress, Request, State
from app.hub.tokens import Tokens
from app.i18n.units import size_text, time_text
from app.system import json_text as json
from app.system.background import start
from app.system.command_line import BAD_INPUT, INTERRUPTED, CommandParser, print_line, print_note
from app.system.paths import expanded

_REPO_HELP = "the model's name on the hub, such as Qwen/Qwen3-0.6B; with a variant of its GGUF files: org/name:Q4_K_M"
_LOOK_SECONDS = 0.1
_LINE_SECONDS = 5.0
_SECONDS_TO_PART = 3.0


class Reporter(Protocol):
    """Tells a terminal, or a program, how it goes."""

    def show(self, progress: Progress) -> None:
        """Something may have changed."""

    def finish(self, progress: Progress) -> None:
        """All is there."""


def run(arguments: Sequence[str], dependencies: Dependencies | None = None) -> int:
    """The exit code: 0 when the model is there, 2 when it cannot be had, 130 when interrupted."""
    options = _build_parser().parse_args(arguments)
    to = str(expanded(options.to).absolute()) if options.to else ""
    download = Download(
        1, Request.of(options.repo, options.revision, to), dependencies or Dependencies(token=Tokens().secret)
    )
    reporter: Reporter = JsonLines() if options.json else Line(sys.stderr.isatty())
    interrupted = _follow(download, reporter)
    progress = download.progress
    if progress.state is State.DONE:
        reporter.finish(progress)
        return 0
    if interrupted:
        print_note("Interrupted. What has arrived is kept: the same command goes on from there.")
        return INTERRUPTED
    print_note(f"error: {progress.message} {progress.hint}".rstrip())
    return BAD_INPUT


def _build_parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="coppice download", description="Download a model from the hub into its local cache.")
    parser.add_argument("repo", metavar="REPO", help=_REPO_HELP)
    parser.add_argument(
        "--revision", default="main", metavar="REVISION", help="a branch, a tag or a commit (default: %(default)s)"
    )
    parser.add_argument("--to", metavar="DIR", help="a plain model folder to write to (default: the hub cache)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line on stdout")
    return parser


def _follow(download: Download, reporter: Reporter) -> bool:
    """Run it in a thread, so that Ctrl+C is heard at once; whether that was pressed."""
    thread = start("downloads", download.run, lambda _error: download.fail())
    try:
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
            reporter.show(download.progress)
    except KeyboardInterrupt:
        download.stop(StopKind.PAUSE)
        thread.join(_SECONDS_TO_PART)  # a server that does not answer is not waited for: nothing is lost by it
        return True
    return False


class JsonLines:
    """One object a line: `{"file","bytes","total","state"}`, at the end `{"state":"done","path":...}`."""

    def __init__(self) -> None:
        self._last: dict[str, str | int] = {}

    def show(self, progress: Progress) -> None:
        """A line for every change of the file, its bytes or the state."""
        now: dict[str, str | int] = {
            "file": progress.file,
            "bytes": progress.file_bytes,
            "total": progress.file_total,
            "state": progress.state.value,
        }
        if now != self._last and progress.state.is_running:
            self._last = now
            print_line(json.dumps(now))

    def finish(self, progress: Progress) -> None:
        """The last line."""
        print_line(json.dumps({"state": progress.state.value, "path": progress.path}))


class Line:
    """One line on stderr that is written over, or, where that is not a terminal, a new one now and then."""

    def __init__(self, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._width = 0
        self._said = ""
        self._next = 0.0

    def show(self, progress: Progress) -> None:
        """The state of things, in words."""
        text = describe(progress)
        if self._is_terminal:
            sys.stderr.write("\r" + text.ljust(self._width))
            sys.stderr.flush()
            self._width = len(text)
        elif text != self._said and time.monotonic() >= self._next:
            self._said, self._next = text, time.monotonic() + _LINE_SECONDS
            print_note(text)
        if self._is_terminal and not progress.state.is_running:
            sys.stderr.write("\n")

    def finish(self, progress: Progress) -> None:
        """Print the model's folder to stdout."""
        print_line(progress.path)


def describe(progress: Progress) -> str:
    """One line about a download, such as `downloading  42%  1.3 GB of 3.1 GB  24.1 MB/s  1 min 15 s left  a.json`."""
    parts = [progress.state.value]
    if progress.message and progress.state.is_running:
        parts.append(f"({progress.message})")
    if progress.bytes_total:
        parts.append(f"{progress.fraction:4.0%}")
        parts.append(f"{size_text(progress.bytes_done)} of {size_text(progress.bytes_total)}")
    if progress.state is State.DOWNLOADING:
        parts.append(f"{size_text(progress.bytes_per_second)}/s")
        if progress.seconds_left is not None:
            parts.append(f"{time_text(progress.seconds_left)} left")
        parts.append(progress.file)
    if progress.seconds_to_retry:
        parts.append(f"again in {time_text(progress.seconds_to_retry)}")
    return "  ".join(parts)
