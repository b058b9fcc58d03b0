"""The pictures of the README, taken from the real window with the real engine and the embedded pair.

xvfb-run -s '-screen 0 1400x900x24' python -m tests.bench.screenshots [--to resources/docs]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QWidget

from app.main import begin_engine, build_application, build_parser
from app.shell.window import MainWindow
from app.shell.wiring import build_window
from app.system.paths import ROOT, folders_below
from tests.bench.hub_models import put_up_qwen3
from tests.bench.ui_gap import wait
from tests.hub import Hub

QUESTION = "Tell me a story about a dragon."
NAMES = ("answering-dark", "finished-light", "models-dark")
ENOUGH_CHARACTERS = 300  # of an answer in progress
LONG_PATH = 5  # nodes, with the root


def main() -> None:
    """Take them all, each in a process of its own, as the theme is the system's for good."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=ROOT / "resources" / "docs")
    parser.add_argument("--only", choices=NAMES, help="this one, in this process")
    options = parser.parse_args()
    if options.only:
        take(options.only, options.to)
        return
    for name in NAMES:
        again = [sys.executable, "-m", "tests.bench.screenshots", "--to", str(options.to), "--only", name]
        subprocess.run(again, check=True)


def take(name: str, folder: Path) -> None:
    """One picture."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, closing(Hub()) as hub:
        os.environ |= {key: value for key, value in hub.environment(Path(data)).items() if value}
        put_up_qwen3(hub)
        folders = folders_below(Path(data))
        folders.create()
        application = build_application()
        application.setPalette(QPalette(QColor("#202020" if name.endswith("dark") else "#f0f0f0")))
        window = build_window(application, folders, build_parser().parse_args([]), begin_engine(folders))
        window.resize(1320, 780)
        window.show()
        wait(application, lambda: window.library.state.ready, "loading the embedded pair")
        shown = _models(application, window) if name.startswith("models") else _chat(application, window, name)
        settle = time.monotonic() + 0.6  # what arrived last is painted at most 33 ms later, and moves for 250 ms
        wait(application, lambda: time.monotonic() > settle, "painting")
        shown.grab().save(str(folder / f"{name}.png"))
        window.close()
        window.models.close()
        window.link.wait_closed()


def _chat(application: QApplication, window: MainWindow, name: str) -> QWidget:
    """A question and its answer, in progress or finished."""
    window.chat.ask(QUESTION)
    if name.startswith("answering"):
        wait(application, lambda: _written(window) > ENOUGH_CHARACTERS, "the beginning of an answer")
    else:
        wait(application, lambda: not window.chat.is_answering, "an answer")
    _look_at_telling_round(window)
    return window


def _look_at_telling_round(window: MainWindow) -> None:
    """Of those with a path of some length the one with the most branches; what grows just now says less."""
    history, player = window.tree_panel.player.history, window.tree_panel.player

    def branches(place: int) -> int:
        one = history.round(place)
        if one is None or len(one.accepted) < LONG_PATH:
            return 0
        parents = np.frombuffer(one.tree.parents, dtype=np.int32)
        return len(parents) - len(np.unique(parents))

    player.seek(max(range(len(history)), key=branches))


def _models(application: QApplication, window: MainWindow) -> QWidget:
    """A search, what would run here, and a draft for the model that is chosen."""
    dialog = window.models.dialog
    window.open_models()
    dialog.discover.field.setText("qwen3")
    names = [f"Qwen/Qwen3-{size}" for size in ("32B", "14B", "8B", "4B", "1.7B", "0.6B")]
    entries = dialog.discover.entries
    wait(application, lambda: all(entries.verdict(each).fits is not None for each in names), "the estimates")
    dialog.discover.view.choose(names[2])
    drafts = dialog.details.drafts.drafts
    wait(application, lambda: "recommended" in drafts.index(0).data(), "the comparison of vocabularies")
    wait(application, lambda: "…" not in dialog.details.estimate.text(), "the estimate of the pair")
    return dialog


def _written(window: MainWindow) -> int:
    answer = window.chat.conversation.last_answer
    return len(answer.text) if answer else 0


if __name__ == "__main__":
    main()
