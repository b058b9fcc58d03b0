"""How long the window is deaf: the longest gap of a 16 ms timer while the real engine answers and the tree is shown.

And while the theme and the size of text change with Preferences open; while a second window is opened beside an
answer, and both answer.

`python -m tests.bench.ui_gap --json`; also the time from the start of the process to the first paint of the window.
Goals: a gap of at most 50 ms, a first paint within a second.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QEventLoop, QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication

from app.main import begin_engine, build_application, build_parser
from app.shell.window import MainWindow
from app.shell.wiring import build_window
from app.system.paths import folders_below

QUESTIONS = (
    "Tell me a story about a dragon.",
    "Tell me a story about a fox and a bear.",
    "List five fruits.",
    "Explain speculative decoding.",
)
TICK_MS = 16
PATIENCE_SECONDS = 300
SETTLING_SECONDS, BETWEEN_LOOKS_SECONDS = 1.0, 0.3


class FirstPaint(QObject):
    """Notes when the window first paints itself; `started` is the clock time at which its process was asked for."""

    def __init__(self, window: MainWindow, started: float) -> None:
        super().__init__(window)
        self.seconds = 0.0
        self._started = started
        window.chat_panel.welcome.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Look at every event, take none."""
        if event.type() == QEvent.Type.Paint and not self.seconds:
            self.seconds = time.time() - self._started
        return False


class Gaps:
    """The time between the ticks of a timer, in seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = time.perf_counter()
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._on_timeout)
        self._timer.start(TICK_MS)

    def _on_timeout(self) -> None:
        now = time.perf_counter()
        self.seconds.append(now - self._last)
        self._last = now

    def stop(self) -> None:
        """No more ticks."""
        self._timer.stop()


def wait(application: QApplication, done: Callable[[], bool], what: str) -> None:
    """Run the event loop until `done()`."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        if time.monotonic() > deadline:
            sys.exit(f"error: {what} took longer than {PATIENCE_SECONDS} s.")
        application.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents, TICK_MS)


def measure(answers: int, folder: Path, started: float) -> dict[str, float]:
    """Open the window, ask, and measure; returns figures in milliseconds."""
    folders = folders_below(folder)
    folders.create()
    application = build_application()
    window = build_window(application, folders, build_parser().parse_args([]), begin_engine(folders))
    paint = FirstPaint(window, started)
    window.show()
    loading = Gaps()
    wait(application, lambda: window.library.state.ready, "loading the embedded pair")
    loading.stop()
    answering = Gaps()
    for number in range(answers):
        window.chat.ask(QUESTIONS[number % len(QUESTIONS)])
        wait(application, lambda: not window.chat.is_answering, "an answer")
    answering.stop()
    styling = change_look(application, window)
    opening, both, second_paint = open_another(application, window)
    tokens = sum(each.statistics.new_tokens for each in window.chat.conversation.messages if each.statistics)
    window.program.quit()
    window.link.wait_closed()
    return {
        "first_paint_ms": paint.seconds * 1000,
        "longest_gap_loading_ms": max(loading.seconds) * 1000,
        "longest_gap_answering_ms": max(answering.seconds) * 1000,
        "longest_gap_styling_ms": max(styling) * 1000,
        "median_gap_styling_ms": statistics.median(styling) * 1000,
        "longest_gap_opening_ms": max(opening.seconds) * 1000,
        "longest_gap_of_two_answers_ms": max(both.seconds) * 1000,
        "second_window_paint_ms": second_paint * 1000,
        "p99_gap_answering_ms": sorted(answering.seconds)[int(len(answering.seconds) * 0.99)] * 1000,
        "ticks": len(answering.seconds),
        "tokens": tokens,
    }


def change_look(application: QApplication, window: MainWindow) -> list[float]:
    """Another theme and another size of text, and back, some times, with Preferences open.

    The longest gap of each change in seconds.
    """
    window.actions_.preferences.trigger()
    dialog, times = window.program.preferences.dialog, 3
    assert dialog is not None, "it was opened"
    looks: list[dict[str, Any]] = [{"theme": "dark"}, {"theme": "light"}, {"text_size": 110}, {"text_size": 100}]
    idle(application, SETTLING_SECONDS)
    longest = []
    for look in looks * times:
        gaps = Gaps()
        window.settings.change(**look)
        dialog.applied.emit()
        idle(application, BETWEEN_LOOKS_SECONDS)
        gaps.stop()
        longest.append(max(gaps.seconds))
    dialog.close()
    return longest


def idle(application: QApplication, seconds: float) -> None:
    """Run the event loop for so long."""
    end = time.monotonic() + seconds
    wait(application, lambda: time.monotonic() >= end, "nothing")


def open_another(application: QApplication, window: MainWindow) -> tuple[Gaps, Gaps, float]:
    """Open a second window while the first one answers, and ask there too.

    The gaps until it is there as a whole, those until both have answered, and seconds to its first paint.
    """
    program = window.program
    window.chat.ask(QUESTIONS[0])
    wait(application, lambda: bool(window.chat.conversation.messages[-1].text), "an answer's first words")
    gaps, asked = Gaps(), time.time()
    window.actions_.new_window.trigger()
    wait(application, lambda: len(program.windows) > 1, "another window")
    second = program.windows[-1]
    paint = FirstPaint(second, asked)
    second.chat_panel.welcome.update()  # it may have been painted already
    wait(application, lambda: bool(paint.seconds) and second.tree.is_made, "its first paint, and its tree")
    gaps.stop()
    both = Gaps()
    second.chat.ask(QUESTIONS[1])
    wait(application, lambda: not (window.chat.is_answering or second.chat.is_answering), "two answers")
    both.stop()
    return gaps, both, paint.seconds


def main() -> None:
    """Measure once, in a process of its own so that its start is measured too, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--started", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.started is None:
        os.environ["PYSIDE6_OPTION_LAZY"] = "0"  # as `app.__main__` has it: Qt's types are made as PySide6 is imported
        again = [sys.executable, "-m", "tests.bench.ui_gap", *sys.argv[1:], "--started", str(time.time())]
        sys.exit(subprocess.run(again, check=False).returncode)
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(options.answers, Path(folder), options.started)
    figures = {name: round(value, 1) for name, value in measured.items()}
    print(json.dumps(figures) if options.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
