"""An engine without a model: speaks the protocol over the same socket and does what the last question tells it.

`say WORDS` answers with the words, one a round; `hang` sends one round and then waits to be cancelled; `deaf` never
listens again; `kill`, `exit N` end the process in mid-answer; `fail` fails; `long` runs into the length limit;
`drip N` takes its time over N words, until it is cancelled.
A target named `missing` cannot be loaded, `slow` loads until it is cancelled, `fatal` ends the process.
COPPICE_FAKE_START: `mute` ends before it connects, `protocol` speaks another version, `garbage` sends nonsense.
"""

import os
import queue
import signal
import sys
import threading
from array import array
from collections.abc import Iterator
from multiprocessing.connection import Client
from typing import Any

from engine.protocol.messages import (
    PROTOCOL,
    Cancel,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Load,
    Loaded,
    Loading,
    ModelInfo,
    Prefilled,
    Ready,
    Round,
    Seconds,
    Shutdown,
    Statistics,
    Tree,
)
from engine.protocol.sentences import say

SECONDS_A_WORD = 0.01
STORY = "Once upon a time there was a fox who lived by the sea and never once went for a swim."


def model(source: str, name: str) -> ModelInfo:
    """A model as the engine would describe it."""
    return ModelInfo(
        source=source,
        name=name,
        family="llama",
        parameters=7_500_000,
        layers=8,
        bytes=15_000_000,
        weights="float32",
        device="cpu",
    )


def loaded(request: int, target: str = "embedded", draft: bool = True) -> Loaded:
    """A pair as the engine would describe it."""
    name = "demo-target" if target == "embedded" else target
    return Loaded(request, model(target, name), model("embedded", "demo-draft") if draft else None, 2048, 0.1)


def round_of(request: int, index: int, piece: str) -> Round:
    """A round whose tree is a root, the accepted token `piece`, and one rejected sibling."""
    tree = Tree(
        tokens=array("i", [1, 2, 3]).tobytes(),
        parents=array("i", [-1, 0, 0]).tobytes(),
        log_probs=array("f", [0.0, -0.1, -2.5]).tobytes(),
        pieces=("…", piece, " or"),
    )
    spent = Seconds(draft=0.001, target=0.002, other=0.001, decode=0.004)
    return Round(
        id=request,
        index=index,
        tree=tree,
        accepted=(0, 1),
        bonus=4,
        bonus_piece="",
        new_tokens=2,
        text=piece,
        seconds=spent,
    )


def finished(request: int, reason: FinishReason, passes: int) -> Finished:
    """The ending of an answer of so many rounds."""
    figures = Statistics(
        method="specexec",
        budget=64,
        prompt_tokens=12,
        new_tokens=2 * passes,
        passes=passes,
        drafted_nodes=2 * passes,
        first_token_seconds=0.05,
        seconds=Seconds(decode=0.1),
    )
    return Finished(request, reason, "", figures)


class FakeEngine:
    """Serves one application until it is told to end or the connection closes."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._requests: queue.SimpleQueue[Load | Generate] = queue.SimpleQueue()
        self._cancelled = threading.Condition()
        self._cancelled_through = 0
        self._deaf = False

    def run(self) -> None:
        """Answer requests for ever."""
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            request = self._requests.get()
            for event in self._load(request) if isinstance(request, Load) else self._generate(request):
                self._connection.send(event)

    def _listen(self) -> None:
        try:
            while True:
                command = self._connection.recv()
                if isinstance(command, Load | Generate):
                    self._requests.put(command)
                elif isinstance(command, Cancel):
                    with self._cancelled:
                        self._cancelled_through = command.through
                        self._cancelled.notify_all()
                elif isinstance(command, Shutdown) and not self._deaf:
                    break
        except (EOFError, OSError):
            pass
        os._exit(0)

    def _wait_for_cancel(self, request: int) -> None:
        with self._cancelled:
            self._cancelled.wait_for(lambda: self._cancelled_through >= request)

    def _load(self, request: Load) -> Iterator[Event]:
        target = request.options.target
        yield Loading(request.id, say("Loading {name}", name=target), 0, 2)
        if target == "missing":
            message = say("There is no model folder {folder}.", folder=f"'{target}'")
            yield Failed(request.id, message, say("Check the path, or give a hub id like 'org/name'."))
            return
        if target == "fatal":
            os._exit(9)
        if target == "slow":
            self._wait_for_cancel(request.id)
            yield Finished(request.id, "cancelled")
            return
        yield Loading(request.id, "Loading the draft", 1, 2)
        yield loaded(request.id, target, request.options.draft != "none")
        yield Finished(request.id, "loaded")

    def _generate(self, request: Generate) -> Iterator[Event]:
        command, _, rest = request.chat[-1].content.partition(" ")
        words = (rest if command == "say" else STORY).split(" ")
        if command == "fail":
            message = say("The conversation has {count} tokens, and the context holds {room}.", count=9000, room=2048)
            hint = say("Start a new chat, shorten the message, or load the model with a larger context.")
            yield Failed(request.id, message, hint)
            return
        yield Prefilled(request.id, 12, 0, 0.01)
        if command == "drip":
            yield from self._drip(request, int(rest))
            return
        for index, word in enumerate(words):
            yield round_of(request.id, index, word if index == 0 else f" {word}")
            if index == 1 and command in ("hang", "deaf", "kill", "exit"):
                yield from self._misbehave(request, command, rest)
                return
        yield finished(request.id, "length" if command == "long" else "stop", len(words))

    def _drip(self, request: Generate, words: int) -> Iterator[Event]:
        for index in range(words):
            yield round_of(request.id, index, f"word{index} ")
            with self._cancelled:
                if self._cancelled.wait_for(lambda: self._cancelled_through >= request.id, SECONDS_A_WORD):
                    yield finished(request.id, "cancelled", index + 1)
                    return
        yield finished(request.id, "stop", words)

    def _misbehave(self, request: Generate, command: str, rest: str) -> Iterator[Event]:
        if command == "kill":
            os.kill(os.getpid(), signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
        if command == "exit":
            os._exit(int(rest))
        self._deaf = command == "deaf"
        self._wait_for_cancel(request.id if command == "hang" else 2**63)
        yield finished(request.id, "cancelled", 2)


def main() -> None:
    """Connect, say hello, and serve."""
    start = os.environ.get("COPPICE_FAKE_START", "")
    if start == "mute":
        os._exit(7)
    address, key = os.environ["COPPICE_ENGINE_ADDRESS"], os.environ["COPPICE_ENGINE_KEY"]
    connection = Client(address, authkey=bytes.fromhex(key))
    if start == "garbage":
        connection.send_bytes(b"this is no pickle")
    else:
        connection.send(Ready(PROTOCOL + (start == "protocol"), os.getpid()))
    FakeEngine(connection).run()


if __name__ == "__main__":
    main()
