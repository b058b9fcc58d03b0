"""`serve`: the local server without a window, until it is told to end."""

import argparse
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from engine.cli import values
from engine.cli.serving_log import ServingLog
from engine.errors import Cancellation, CoppiceError
from engine.kept_files import AUTOMATIC
from engine.loading.store import cache_root, unwritable
from engine.observing.watcher import Watcher
from engine.process import forbid_core_files
from engine.protocol.keeping import KeepTexts
from engine.protocol.messages import Event, Failed, Load
from engine.protocol.options import LoadOptions
from engine.protocol.serving import DEFAULT_HOST, DEFAULT_PORT, ServeOptions, ServingEnded
from engine.serving.desk import SERVED_FROM, Desk, Job
from engine.serving.worker import Worker

if TYPE_CHECKING:
    from engine.serving.listening import Listening

KEY_VARIABLE = "COPPICE_API_KEY"
TERMINAL = "terminal"  # the asker of the one load
EXIT_BROKEN, EXIT_INTERRUPTED = 1, 130
EVERY_REQUEST = 2 * SERVED_FROM  # no id is larger
SECONDS_DEAF = 0.5  # on Windows a signal is heard only between two waits


@dataclass(frozen=True, slots=True)
class Ending:
    """Why the server ends: the exit code, or the load that failed."""

    code: int = 0
    failed: Failed | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `serve` but for those of loading."""
    add = parser.add_argument
    add("--host", default=DEFAULT_HOST, metavar="ADDRESS", help="where to listen (default: %(default)s: this computer)")
    add("--port", type=int, default=DEFAULT_PORT, metavar="N", help="0 for any free one (default: %(default)s)")
    key = f"what clients must show (default: the variable {KEY_VARIABLE}, which others here cannot read, else no key)"
    add("--api-key", default=None, metavar="KEY", help=key)
    origin = "a web page that may ask, or * for all; may be repeated"
    add("--origin", action="append", default=[], metavar="URL", help=origin)
    alias = "another name that clients may call the model by, or * for any; may be repeated"
    add("--alias", action="append", default=[], metavar="NAME", help=alias)
    budget = "keep memory for trees of so many drafted nodes (default: auto)"
    add("--budget", type=values.budget, default=0, metavar="auto|N", help=budget)
    keep = "gigabytes of disk for what was read, so that it is read once; 0 for none (default: a part of what is free)"
    add("--keep-gb", type=values.keep_bytes, default=AUTOMATIC, metavar="auto|N", help=keep, dest="keep_bytes")
    add("--quiet", action="store_true", help="no line for each request")


def serve_options(arguments: argparse.Namespace) -> ServeOptions:
    """Where to listen, and whom to answer; raises `InputError`. The key's variable is taken out of the environment."""
    key = os.environ.pop(KEY_VARIABLE, "")
    options = ServeOptions(
        host=arguments.host,
        port=arguments.port,
        api_key=(key if arguments.api_key is None else arguments.api_key).rstrip("\r\n"),  # as files of keys end
        origins=tuple(arguments.origin),
        aliases=tuple(arguments.alias),
    )
    options.check()
    return options


def serve(
    options: ServeOptions,
    load: LoadOptions,
    *,
    keep_bytes: int = 0,
    as_json: bool = False,
    quiet: bool = False,
    leave: Callable[[int], object] = os._exit,
) -> None:
    """Listen at once, load, and answer; raises `CoppiceError` where either cannot be.

    `keep_bytes`: of texts on disk, see `KeepTexts`. `leave` ends the process with an exit code: not `sys.exit`, as a
    thread may be deep inside a pass.
    """
    endings: SimpleQueue[Ending] = SimpleQueue()
    with _signals_heard(endings):
        forbid_core_files()
        from engine.serving.listening import listen  # noqa: PLC0415  # fastapi, behind options that make sense

        log, desk, cancellation = ServingLog(quiet), Desk(), Cancellation()
        listening = listen(desk, options, lambda event: _heard(event, log, endings))
        _announce(listening, as_json)
        if reason := unwritable(load):
            again = "what is read, measured and prepared is made again each time"
            log.say(f"Nothing can be kept in {cache_root(load)}: {reason}. So {again}.")
        desk.put(Job(Load(desk.next_id(), load), TERMINAL, lambda event: _told(event, log, endings)))
        keeping = KeepTexts(keep_bytes, load.cache_dir)
        threading.Thread(target=_work, args=(desk, cancellation, endings, keeping), name="worker", daemon=True).start()
        ending = _next(endings)
        listening.close()
        cancellation.cancel(EVERY_REQUEST)  # what is under way ends within one layer
    if ending.failed:
        raise CoppiceError(ending.failed.message, ending.failed.hint)
    leave(ending.code)


def _announce(listening: "Listening", as_json: bool) -> None:
    line = json.dumps({"address": listening.address, "pid": os.getpid()}) if as_json else listening.address
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _told(event: object, log: ServingLog, endings: "SimpleQueue[Ending]") -> None:
    """An event of the load."""
    if isinstance(event, Failed):
        log.end()
        endings.put(Ending(failed=event))
    else:
        log.tell_load(event)


def _heard(event: Event, log: ServingLog, endings: "SimpleQueue[Ending]") -> None:
    """What the server tells."""
    if isinstance(event, ServingEnded):
        endings.put(Ending(failed=Failed(0, event.message, event.hint)))
    else:
        log.tell(event)


def _work(desk: Desk, cancellation: Cancellation, endings: "SimpleQueue[Ending]", keeping: KeepTexts) -> None:
    reading: Future[None] = Future()
    reading.set_result(None)  # torch is imported by the load, in this thread
    try:
        worker = Worker(desk, cancellation, Watcher(lambda _event: None), reading)
        worker.keeping = keeping
        worker.run()
    except BaseException:  # noqa: BLE001  # a server without its engine must end
        traceback.print_exc()
        endings.put(Ending(EXIT_BROKEN))


def _next(endings: "SimpleQueue[Ending]") -> Ending:
    while True:
        try:
            return endings.get(timeout=SECONDS_DEAF if sys.platform == "win32" else None)
        except Empty:
            continue


@contextmanager
def _signals_heard(endings: "SimpleQueue[Ending]") -> Iterator[None]:
    """SIGTERM is the ordinary end, SIGINT an interruption: also in the middle of a pass, which runs elsewhere."""
    meanings = {signal.SIGTERM: 0, signal.SIGINT: EXIT_INTERRUPTED}

    def hear(number: int, _frame: object) -> None:
        endings.put(Ending(meanings[signal.Signals(number)]))

    before = {number: signal.signal(number, hear) for number in meanings}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
