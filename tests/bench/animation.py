"""The animated picture of the README: a session of the embedded pair, recorded with the real engine and replayed.

python -m tests.bench.animation [--recording FILE.jsonl] [--rounds 8] [--to resources/docs/session.webp]
"""

import argparse
import io
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PIL import Image
from PySide6.QtCore import QBuffer, QIODevice, Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from app.main import begin_engine, build_application, build_parser
from app.settings.store import SettingsFile
from app.shell.window import MainWindow
from app.shell.wiring import build_window, connected_window
from app.system.paths import ROOT, folders_below
from app.tree.picture.moving.growth import stages
from app.tree.picture.moving.live import Live
from app.tree.rounds.recording import read_recording
from app.tree.rounds.snapshot import Snapshot, partial, snapshot
from app.ui.theme import Theme
from engine.protocol.messages import Round
from engine.protocol.options import LoadOptions
from tests.app.fake_link import FakeLink
from tests.bench.ui_gap import wait

QUESTION = "Tell me a story about a dragon."
BUDGET = 48
SIZE = (1120, 560)
TREE_WIDTH = 620
_GROWING_MS, _CHECKING_MS, _VERIFIED_MS, _END_MS = 110, 320, 850, 2500
_WAVES = 5  # of the growth of a tree that are shown
_QUIET_SECONDS = 0.12  # what was asked for is painted at most 33 ms later

Frame = tuple[Image.Image, int]
"""A picture, and how many milliseconds it stays."""


def main() -> None:
    """Record a session if none was given, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recording", type=Path, help="one that the window saved; without it a session is recorded")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--to", type=Path, default=ROOT / "resources" / "docs" / "session.webp")
    options = parser.parse_args()
    application = build_application()
    application.setPalette(QPalette(QColor("#202020")))
    with tempfile.TemporaryDirectory() as folder:
        recording = options.recording or record(application, Path(folder))
        rounds = list(islice(read_recording(recording), options.rounds))
        frames = list(replay(application, Path(folder), rounds))
    write(frames, options.to)
    seconds = sum(duration for _, duration in frames) / 1000
    print(f"{len(frames)} pictures, {seconds:.1f} s, {options.to.stat().st_size / 1e6:.2f} MB in {options.to}")


def record(application: QApplication, folder: Path) -> Path:
    """Ask the embedded pair in the real window with the real engine; returns the recording that it saves."""
    folders = folders_below(folder / "recorded")
    folders.create()
    window = build_window(application, folders, build_parser().parse_args([]), begin_engine(folders))
    window.show()
    wait(application, lambda: window.library.state.ready, "loading the embedded pair")
    window.tree_panel.budget_wanted.emit(BUDGET)
    window.chat.ask(QUESTION)
    wait(application, lambda: not window.chat.is_answering, "an answer")
    path = folder / "session.jsonl"
    window.tree_panel.exports.save_to(path)
    wait(application, path.exists, "the recording")
    window.close()
    window.models.close()
    window.link.wait_closed()
    return path


def replay(application: QApplication, folder: Path, rounds: list[Round]) -> Iterator[Frame]:
    """Show the rounds in a window that is told what the engine told: every tree grows, is checked, and is cut."""
    folders = folders_below(folder / "replayed")
    folders.create()
    link = FakeLink()
    settings = SettingsFile(folders.settings_file)
    settings.change(smooth=False, reduce_motion=True)  # every step has a picture of its own
    window = connected_window(link, settings, folders, Theme(application), LoadOptions())
    window.resize(*SIZE)
    window.show()
    link.become_ready()
    window.chats_dock.hide()
    window.resizeDocks([window.tree_dock], [TREE_WIDTH], Qt.Orientation.Horizontal)
    window.chat.ask(QUESTION)
    live = window.tree_panel.findChildren(Live)[0]
    for each in rounds:
        verified = snapshot(each)
        for tree, milliseconds in growing(verified):
            live.grown.emit(tree)
            yield picture(application, window), milliseconds
        text = "".join(each.tree.pieces[node] for node in each.accepted[1:]) + each.bonus_piece
        link.answer(replace(each, id=link.last_question.id, text=text))
        yield picture(application, window), _END_MS if each is rounds[-1] else _VERIFIED_MS
    window.close()
    window.models.close()


def growing(verified: Snapshot) -> Iterator[tuple[Snapshot, int]]:
    """The tree wave by wave, and then as the target checks it."""
    ends = stages(verified.parents.tolist())
    stride = -(-len(ends) // _WAVES)
    for end in sorted({*ends[::stride], ends[-1]}):
        yield partial(verified, end), _GROWING_MS
    whole = partial(verified, len(verified.pieces))
    yield replace(whole, checking=len(verified.pieces)), _CHECKING_MS


def picture(application: QApplication, window: MainWindow) -> Image.Image:
    """What the window shows, once everything is painted."""
    settle = time.monotonic() + _QUIET_SECONDS
    wait(application, lambda: time.monotonic() > settle, "painting")
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    window.grab().save(buffer, "PNG")
    return Image.open(io.BytesIO(buffer.data().data())).convert("RGB")


def write(frames: list[Frame], path: Path) -> None:
    """As an animated WebP that begins again at its end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    first, *others = [image for image, _ in frames]
    durations = [duration for _, duration in frames]
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0, lossless=True, method=6)


if __name__ == "__main__":
    main()
