"""A window and a Coppice server in two network namespaces, with delay, loss and a cut cable between them.

`python -m tests.campaigns.across_hosts` needs Linux, root and iproute2; without them it says so. For each case: nothing
hangs (the window's longest pause is measured), the chat says what happened, the text so far stays.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.campaigns.cable import connected

ROOT = Path(__file__).parents[2]
SERVER, WINDOW = "coppice-server", "coppice-window"  # the namespaces
ADDRESSES = {SERVER: "10.77.0.1", WINDOW: "10.77.0.2"}
PORT, KEY = 8383, "across-hosts"
QUESTION = "Tell me a long story about a dragon and a knight."
PATIENCE_SECONDS = 90
LONGEST_PAUSE_SECONDS = 0.25  # of a window that shares two slow cores with the server


@dataclass(frozen=True, slots=True)
class Case:
    """What became of one question. `longest_pause`: seconds in which the window did nothing."""

    name: str
    ending: str
    characters: int
    rounds: int
    seconds: float
    longest_pause: float
    notices: tuple[str, ...]
    problem: str = ""


# ---- the server -----------------------------------------------------------------------------------------------------


def serve() -> None:
    """Serve the embedded pair until killed."""
    import threading
    from concurrent.futures import Future

    from engine.errors import Cancellation
    from engine.observing.watcher import Watcher
    from engine.protocol.messages import Load
    from engine.protocol.options import LoadOptions
    from engine.protocol.serving import ServeOptions
    from engine.serving.desk import WINDOW as OWN
    from engine.serving.desk import Desk, Job
    from engine.serving.listening import listen
    from engine.serving.worker import Worker

    desk, reading = Desk(), Future[None]()
    reading.set_result(None)
    worker = Worker(desk, Cancellation(), Watcher(), reading)
    desk.put(Job(Load(1, LoadOptions(device="cpu")), OWN, lambda _event: None))
    listen(desk, ServeOptions(ADDRESSES[SERVER], PORT, KEY), lambda _event: None)
    threading.Thread(target=worker.run, daemon=True).start()
    threading.Event().wait()


# ---- the window -----------------------------------------------------------------------------------------------------


class Watched:
    """A window in front of the server, with a clock that sees when it stands still."""

    def __init__(self, folder: Path) -> None:
        from PySide6.QtCore import QTimer
        from PySide6.QtWidgets import QApplication

        from app.engine.remote.addresses import Place
        from app.library.remote.engines import SavedEngine
        from app.settings.store import SettingsFile
        from app.shell.wiring import connected_window
        from app.system.paths import folders_below
        from app.ui.theme import Theme
        from engine.protocol.options import LoadOptions
        from tests.app.fake_link import FakeLink

        self.application = QApplication(["coppice"])
        folders = folders_below(folder)
        folders.create()
        settings = SettingsFile(folders.settings_file)
        self.window = connected_window(
            FakeLink(),
            settings,
            folders,
            Theme(self.application),
            LoadOptions(),
        )
        self.window.show()
        self.rounds = 0
        self.window.switch.events_arrived.connect(self._count)
        self._last = time.monotonic()
        self.longest = 0.0
        self._heart = QTimer(interval=10)
        self._heart.timeout.connect(self._beat)
        self._heart.start()
        place = Place(f"http://{ADDRESSES[SERVER]}:{PORT}", "")
        self.engine = SavedEngine("Server", place, has_key=True)
        self.window.engines.keys.remember(place.address, KEY)

    def _count(self, events: list[object]) -> None:
        self.rounds += sum(type(each).__name__ == "Round" for each in events)

    def _beat(self) -> None:
        now = time.monotonic()
        self.longest = max(self.longest, now - self._last)
        self._last = now

    def wait(self, until: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
        """Whether it became so."""
        end = time.monotonic() + seconds
        while not until():
            if time.monotonic() > end:
                return False
            self.application.processEvents()
            time.sleep(0.002)
        return True

    def connect(self) -> None:
        """Find the server's model, once it is loaded, and use it."""
        from dataclasses import replace

        from app.engine.remote.servers import look_at
        from app.engine.remote.wire import Wire
        from app.system.background import Stop
        from engine.errors import CoppiceError

        wire, end = Wire(self.engine.place.address, lambda: KEY), time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                server = look_at(wire, Stop())
                break
            except CoppiceError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)
        model = server.models[0]
        place = replace(self.engine.place, model=model.name, kind=server.kind, context_tokens=model.context_tokens)
        self.engine = replace(self.engine, place=place)
        self.window.engines.save(self.engine)
        self.window.engines.use("Server")
        assert self.wait(lambda: self.window.engines.state.ready), "the server was found, and is not there"

    def case(
        self,
        name: str,
        *,
        endings: tuple[str, ...],
        act: Callable[[], None],
        resume: bool = False,
        longest: float = LONGEST_PAUSE_SECONDS,
    ) -> Case:
        """Ask, have something happen in mid-answer, and wait for the end."""
        chat = self.window.chat
        self.rounds, self.longest, begin = 0, 0.0, time.monotonic()
        self._last = begin
        if resume:
            before = self._text
            chat.continue_answer()
        else:
            before = ""
            chat.start_new_chat()
            chat.ask(QUESTION)
        act()
        ended = self.wait(lambda: not chat.is_answering)
        answer = chat.conversation.last_answer
        assert answer is not None
        notices = tuple(each.text for each in self.window.notices.notices)
        problems = (
            "it hangs" if not ended else "",
            "" if answer.ending.value in endings else f"it should be one of {endings}",
            "" if answer.text.startswith(before.rstrip("\N{REPLACEMENT CHARACTER}")) else "text is lost",
            f"the window stood still for {self.longest:.2f} s" if self.longest > longest else "",
            "" if answer.ending.value in ("complete", "length", "stopped") or notices else "nothing is said",
        )
        seconds = time.monotonic() - begin
        return Case(
            name, answer.ending.value, len(answer.text), self.rounds, round(seconds, 1), round(self.longest, 3),
            notices, "; ".join(filter(None, problems)),
        )  # fmt: skip

    @property
    def _text(self) -> str:
        answer = self.window.chat.conversation.last_answer
        return answer.text if answer else ""

    def until_written(self, characters: int = 60) -> None:
        """Wait until the answer is under way."""
        assert self.wait(lambda: len(self._text) >= characters), "no answer begins"


def _weather(**what: float) -> None:
    """Ask whoever holds the cable to change it."""
    sys.stdout.write(json.dumps({"cable": what}) + "\n")
    sys.stdout.flush()


def _cut() -> None:
    _weather(loss=1.0)


def _mend() -> None:
    _weather()


def cases(watched: Watched) -> Iterator[Case]:
    """All of them, one after the other."""
    window, done = watched.window, ("complete", "length")

    def cut_in_mid_answer() -> None:
        watched.until_written()
        _cut()

    def stop_over_a_cut_cable() -> None:
        cut_in_mid_answer()
        begin = time.monotonic()
        window.chat.stop()
        assert time.monotonic() - begin < LONGEST_PAUSE_SECONDS, "stop waits for the network"

    yield watched.case("the first answer", endings=done, act=lambda: None, longest=3.0)  # much is made for it
    _weather(delay=0.15, jitter=0.03, loss=0.03)
    yield watched.case("slow, and packets are lost", endings=done, act=lambda: None)
    _mend()
    yield watched.case("cut in mid-answer", endings=("lost",), act=cut_in_mid_answer)
    yield watched.case("asked while it is cut", endings=("failed", "lost"), act=lambda: None)
    _mend()
    yield watched.case("asked again", endings=("lost",), act=cut_in_mid_answer)
    _mend()
    yield watched.case("continued when it is mended", endings=done, act=lambda: None, resume=True)
    yield watched.case("stopped while it is cut", endings=("stopped",), act=stop_over_a_cut_cable)
    _mend()
    yield watched.case("once more as it should be", endings=done, act=lambda: None)


def look() -> None:
    """Be the window; one line of JSON for each case."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        watched = Watched(Path(folder))
        watched.connect()
        for case in cases(watched):
            sys.stdout.write(json.dumps(asdict(case)) + "\n")
            sys.stdout.flush()
        sys.stdout.flush()
        os._exit(0)  # threads that wait for a cut connection need not be waited for


# ---- both -----------------------------------------------------------------------------------------------------------


def across() -> Iterator[Case]:
    """Every case as the window tells it."""
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "OMP_NUM_THREADS": "1"}
    environment["QT_LOGGING_RULES"] = "*.warning=false"
    environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    program = (sys.executable, "-m", __spec__.name if __spec__ else "tests.campaigns.across_hosts")

    def begin(space: str, part: str) -> "subprocess.Popen[str]":
        command = ("ip", "netns", "exec", space, *program, "--be", part)
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)

    with connected(ADDRESSES) as cable:
        server, window = begin(SERVER, "server"), begin(WINDOW, "window")
        try:
            assert window.stdout
            for told in map(json.loads, window.stdout):
                if "cable" in told:
                    cable.change(**told["cable"])
                else:
                    yield Case(**{**told, "notices": tuple(told["notices"])})
            if window.wait():
                raise RuntimeError("the window ended before its time")
        finally:
            for each in (window, server):
                each.kill()
                each.wait()


def refusal() -> str:
    """Why namespaces cannot be made here; empty where they can."""
    try:
        with connected(ADDRESSES):
            return ""
    except OSError as error:
        return str(error)
    except subprocess.CalledProcessError as error:
        return f"namespaces are not allowed here: {error.stderr.strip()}"


def main() -> int:
    """Run everything and print a table; 1 where something is wrong, 2 where it cannot be run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--be", choices=("server", "window"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.be:
        serve() if options.be == "server" else look()
        return 0
    if reason := refusal():
        sys.stderr.write(f"Nothing was tried: {reason}\n")
        return 2
    bad = 0
    for case in across():
        bad += bool(case.problem)
        words = f"{case.name:28} {case.ending:10} {case.characters:5} characters {case.rounds:4} rounds "
        words += f"{case.seconds:5} s, longest pause {case.longest_pause} s. {case.problem or 'good'}"
        told = "".join(f"\n    says: {each}" for each in case.notices)
        sys.stdout.write((json.dumps(asdict(case)) if options.json else words + told) + "\n")
        sys.stdout.flush()
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
