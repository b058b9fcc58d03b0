"""The pictures of the README, taken from the real window with the real engine and the embedded pair.

xvfb-run -s '-screen 0 1400x900x24' python -m tests.bench.screenshots [--to resources/docs]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PySide6.QtGui import QColor, QPalette

from app.main import build_application, build_parser, build_window
from app.paths import ROOT, folders_below
from app.window import MainWindow
from tests.bench.ui_gap import wait

QUESTION = "Tell me a story about a dragon."
ENOUGH_CHARACTERS = 160  # of an answer in progress


def main() -> None:
    """Take them all, each in a process of its own, as the theme is the system's for good."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=ROOT / "resources" / "docs")
    parser.add_argument("--only", choices=("answering-dark", "finished-light"), help="this one, in this process")
    options = parser.parse_args()
    if options.only:
        take(options.only, options.to)
        return
    for name in ("answering-dark", "finished-light"):
        again = [sys.executable, "-m", "tests.bench.screenshots", "--to", str(options.to), "--only", name]
        subprocess.run(again, check=True)


def take(name: str, folder: Path) -> None:
    """One picture."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data:
        folders = folders_below(Path(data))
        folders.create()
        application = build_application()
        application.setPalette(QPalette(QColor("#202020" if name.endswith("dark") else "#f0f0f0")))
        window = build_window(application, folders, build_parser().parse_args([]))
        window.resize(1320, 780)
        window.show()
        wait(application, lambda: window.library.state.ready, "loading the embedded pair")
        window.chat.ask(QUESTION)
        if name.startswith("answering"):
            wait(application, lambda: _written(window) > ENOUGH_CHARACTERS, "the beginning of an answer")
        else:
            wait(application, lambda: not window.chat.is_answering, "an answer")
        settle = time.monotonic() + 0.1  # what arrived last is painted at most 33 ms later
        wait(application, lambda: time.monotonic() > settle, "painting")
        window.grab().save(str(folder / f"{name}.png"))
        window.close()
        window.link.wait_closed()


def _written(window: MainWindow) -> int:
    answer = window.chat.conversation.last_answer
    return len(answer.text) if answer else 0


if __name__ == "__main__":
    main()
