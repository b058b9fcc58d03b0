"""The server over the embedded pair, asked more than the suite has time for: `python -m tests.campaigns.served`."""

import argparse
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import psutil

from engine.errors import Cancellation
from engine.observing.watcher import Watcher
from engine.protocol.messages import Event, Finished, Load
from engine.protocol.options import LoadOptions
from engine.protocol.serving import ServeOptions
from engine.serving.desk import WINDOW, Desk, Job
from engine.serving.guard.limits import Limits
from engine.serving.listening import listen
from engine.serving.worker import Worker
from tests.engine.serving.short_answers import short_answers

CHECKS = ",".join(
    (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    )
)
AT_ONCE, MOST_TOKENS = 32, 2
LEAKED_BYTES = 16 << 20  # that a process may grow by and have no leak
PARTS = 4
PATIENCE_SECONDS = 600


def main() -> int:
    """Both parts; returns 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=30, metavar="N", help="of each operation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=1000, metavar="N", help="in a row, and again at once")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, short_answers(MOST_TOKENS), served(folder) as address:
        found = described(address, Path(folder), arguments.examples, arguments.seed)
        leaked = hammered(address, arguments.requests)
    print("schemathesis found nothing" if not found else "schemathesis found failures: see above")
    return int(bool(found) or leaked)


@contextmanager
def served(folder: str) -> Iterator[str]:
    """A server of its own, with so high a rate that only memory and the engine limit what is asked."""
    desk, reading, heard = Desk(), Future[None](), queue.SimpleQueue[Event]()
    reading.set_result(None)
    worker = Worker(desk, Cancellation(), Watcher(lambda _event: None), reading)
    threading.Thread(target=worker.run, name="answers", daemon=True).start()
    desk.put(Job(Load(1, LoadOptions(device="cpu", cache_dir=folder)), WINDOW, heard.put))
    while not isinstance(heard.get(timeout=PATIENCE_SECONDS), Finished):
        pass
    limits = Limits(requests_per_second=1e6, burst=1e6)
    listening = listen(desk, ServeOptions(port=0), lambda _visit: None, limits)
    try:
        yield listening.address
    finally:
        listening.close()


def described(address: str, folder: Path, examples: int, seed: int) -> int:
    """Have schemathesis make requests of the server's description; its exit code."""
    options = (f"--max-examples={examples}", f"--seed={seed}", f"--checks={CHECKS}", "--phases=examples,fuzzing")
    command = (sys.executable, "-m", "schemathesis.cli", "run", f"{address}/openapi.json", "--continue-on-failure")
    return subprocess.run((*command, "--no-shrink", *options), cwd=folder, check=False).returncode


def hammered(address: str, count: int) -> bool:
    """Ask so often, one client after the other and then many at once; whether memory leaked.

    The first part of either fills what is kept by intention: texts, rates, learned acceptance, threads. From there on
    nothing may grow.
    """
    seconds, held = [], []
    for ask_all in (_one_by_one, _at_once):
        begun = time.monotonic()
        held.append(
            [
                _held_after(ask_all, address, range(part * count // PARTS, (part + 1) * count // PARTS))
                for part in range(PARTS)
            ]
        )
        seconds.append(time.monotonic() - begun)
    print(f"{count} in a row: {seconds[0]:.0f} s; as many, {AT_ONCE} at once: {seconds[1]:.0f} s")
    print(f"MiB held after each part: {[[round(each / 2**20) for each in part] for part in held]}")
    return any(part[-1] - part[0] > LEAKED_BYTES for part in held)


def _held_after(ask_all: Callable[[str, range], None], address: str, places: range) -> int:
    """Bytes of memory in use after these requests."""
    ask_all(address, places)
    return int(psutil.Process().memory_info().rss)


def _one_by_one(address: str, places: range) -> None:
    for place in places:
        _ask(address, place)


def _at_once(address: str, places: range) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda place: _ask(address, place), places))


def _ask(address: str, place: int) -> None:
    message = {"role": "user", "content": f"Tell me about {place % 10} dragons."}
    body = {"messages": [message], "max_tokens": 1, "stream": place % 2 == 0, "temperature": 0}
    told = httpx.post(f"{address}/v1/chat/completions", json=body, timeout=PATIENCE_SECONDS)
    told.raise_for_status()


if __name__ == "__main__":
    sys.exit(main())
