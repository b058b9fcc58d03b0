"""Animations of answers: they open again, say how long they last, and leave nothing where they are not finished."""

import errno
import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from PySide6.QtCore import QSize
from PySide6.QtGui import QFont, QImage
from pytestqt.qtbot import QtBot

from app.i18n.number_text import size_text
from app.shell.window import MainWindow
from app.tree.exports.animations import encoding, encoding_program, formats
from app.tree.exports.animations.dialog import AnimationDialog
from app.tree.exports.animations.encoding_program import FRAME, Encoded, EncoderSetup, encode
from app.tree.exports.animations.film import Film, Progress
from app.tree.exports.animations.formats import FORMATS, AnimationFormat
from app.tree.exports.animations.gif import GifEncoder
from app.tree.exports.animations.scene import Scene, _tail
from app.tree.exports.animations.story import Frame, added
from app.tree.exports.animations.webp import WebpEncoder
from app.tree.exports.choices import SAME_TIME, AnimationChoice
from app.tree.panel import TreePanel
from app.tree.picture.canvas import CHIPS
from app.tree.rounds.snapshot import snapshot
from app.ui.colors import DARK
from engine.protocol.messages import Round
from tests.app.tree.exports.rounds import HARD, answer
from tests.app.tree.panels import news

FULL = f"""
import sys
sys.stdin.buffer.readline()
print('{{"errno": {errno.ENOSPC}, "reason": "No space left on device"}}', file=sys.stderr)
"""
ENDS = """
import sys
sys.stdin.buffer.readline()
print('{}', file=sys.stderr, flush=True)
print("no memory", file=sys.stderr)
"""
"""Stand in for the process that encodes."""

CHOICE = AnimationChoice(size="small", pace=SAME_TIME, round_seconds=0.5)
SIZE = (800, 450)


def dialog_of(panel: TreePanel, rounds: list[Round], choice: AnimationChoice = CHOICE) -> AnimationDialog:
    for each in rounds:
        panel.show_round(each)
    panel.exports._animation = choice
    panel.exports.export_animation()
    return panel.findChildren(AnimationDialog)[-1]


def opened(path: Path) -> tuple[Image.Image, list[int]]:
    """The animation, and how many milliseconds each of its pictures stays."""
    image = Image.open(io.BytesIO(path.read_bytes()))
    times = []
    for index in range(image.n_frames):  # type: ignore[attr-defined]
        image.seek(index)
        image.load()
        times.append(int(image.info["duration"]))
    return image, times


@pytest.mark.parametrize("suffix", [each.suffix for each in FORMATS])
def test_an_answer_becomes_an_animation(qtbot: QtBot, panel: TreePanel, tmp_path: Path, suffix: str) -> None:
    dialog = dialog_of(panel, [*answer(2), replace(HARD, index=2)], replace(CHOICE, suffix=suffix))
    assert dialog.words.text().startswith("3 rounds, about 4 s and ")
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"an older one")
    with qtbot.waitSignal(dialog.finished):
        dialog.begin(path)
    assert news(panel).words.text().startswith(f"The animation is in a{suffix}: 4 s, ")
    image, times = opened(path)
    assert image.size == SIZE
    assert sum(times) == 3 * 500 + 2500
    assert 9 <= len(times) <= 21, "growth, check and outcome of three rounds"
    assert image.info["loop"] == 0
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert panel.player.is_live


def test_a_malformed_round_is_left_out(qtbot: QtBot, panel: TreePanel, tmp_path: Path) -> None:
    first, bad, last = answer(3)
    dialog = dialog_of(panel, [first, replace(bad, accepted=(0, 99)), last], replace(CHOICE, grows=False))
    with qtbot.waitSignal(dialog.finished):
        dialog.begin(tmp_path / "a.webp")
    _, times = opened(tmp_path / "a.webp")
    assert len(times) == 2


def test_cancelling_leaves_what_was_there(qtbot: QtBot, panel: TreePanel, tmp_path: Path) -> None:
    dialog = dialog_of(panel, answer(40))
    path = tmp_path / "a.webp"
    path.write_bytes(b"an older one")
    dialog.begin(path)
    film = dialog.film
    assert film
    with qtbot.waitSignal(film.progressed):
        pass
    assert len(list(tmp_path.iterdir())) == 2
    dialog.reject()
    qtbot.waitUntil(lambda: [each.name for each in tmp_path.iterdir()] == [path.name])
    assert path.read_bytes() == b"an older one"
    assert not film.is_running


def test_no_frame_is_kept_of_what_is_cancelled(qtbot: QtBot, panel: TreePanel, tmp_path: Path) -> None:
    for _ in range(2):
        dialog = dialog_of(panel, answer(1))
        dialog.begin(tmp_path / "a.webp")
        film = dialog.film
        assert film
        for _ in range(3):
            film._frames.put((QImage(8, 8, QImage.Format.Format_RGB32), 40))
        dialog.reject()
        assert film._frames.qsize() <= 1, "no more than the end is told to the encoder"
        panel.clear()
    qtbot.waitUntil(lambda: len(panel.exports.findChildren(Film)) == 1)


def test_a_full_disk_and_a_folder_that_is_gone_are_told(
    qtbot: QtBot, panel: TreePanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialog = dialog_of(panel, answer(2))
    dialog.begin(tmp_path / "gone" / "a.webp")
    qtbot.waitUntil(lambda: "its folder is not there any more" in dialog.words.text())
    assert dialog.save.isEnabled()
    with monkeypatch.context() as patch:
        patch.setattr(encoding, "command", lambda *_: [sys.executable, "-c", FULL])
        dialog.begin(tmp_path / "a.webp")
        qtbot.waitUntil(lambda: "the disk is full" in dialog.words.text())
    dialog.begin(tmp_path / "a.mp4")
    assert "Choose one of these: .webp, .gif" in dialog.words.text()
    missing = AnimationFormat("GIF", ".gif", "GIF (*.gif)", ("no_such_module", ""), 0)
    monkeypatch.setattr(formats, "FORMATS", (missing,))
    dialog.begin(tmp_path / "a.gif")
    qtbot.waitUntil(lambda: "the library for it is missing" in dialog.words.text())
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_ends_is_told_with_what_it_said(
    qtbot: QtBot, panel: TreePanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(encoding, "command", lambda *_: [sys.executable, "-c", ENDS])
    dialog = dialog_of(panel, answer(4))
    path = tmp_path / "a.webp"
    path.write_bytes(b"an older one")
    dialog.begin(path)
    qtbot.waitUntil(lambda: "a.webp was not finished" in dialog.words.text())
    assert "no memory" in caplog.text
    assert dialog.save.isEnabled()
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"an older one"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_the_process_says_that_a_disk_is_full() -> None:
    setup = EncoderSetup(("gif", "GifEncoder"), (2, 1), DARK.tree, False, "BGRX")
    frames = setup.line() + FRAME.pack(40, 8) + bytes(8) + FRAME.pack(0, 0)
    with Path("/dev/full").open("wb") as full:
        words = [sys.executable, "-m", encoding_program.__name__]
        done = subprocess.run(words, input=frames, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    answers = [Encoded(**json.loads(line)) for line in done.stderr.splitlines()]
    assert answers[-1].errno == errno.ENOSPC
    assert done.returncode == 1


def test_a_file_that_is_not_wanted_any_more_is_not_finished() -> None:
    setup = EncoderSetup(("gif", "GifEncoder"), (2, 1), DARK.tree, False, "BGRX")
    for cut in (0, 4, len(FRAME.pack(0, 0)) + 3):
        frames = setup.line() + (FRAME.pack(40, 8) + bytes(8))[:cut]
        file, answers = io.BytesIO(), io.BytesIO()
        encode(io.BytesIO(frames), file, answers)
        assert [Encoded(**json.loads(line)) for line in answers.getvalue().splitlines()] == [Encoded()]
        assert not file.getvalue().endswith(b";"), "the end of a GIF"


def test_a_size_is_told_from_the_begin(qtbot: QtBot, panel: TreePanel, tmp_path: Path) -> None:
    dialog = dialog_of(panel, answer(4))
    forecast = dialog._footage.bytes(dialog.choice)
    assert Progress(0, 4, 0, 0).bytes_estimated(forecast) == forecast > 0
    assert Progress(2, 4, 9, 100).bytes_estimated(forecast) == 100 + forecast / 2
    assert Progress(4, 4, 20, 300).bytes_estimated(forecast) == 300
    said: list[str] = []
    dialog.begin(tmp_path / "a.webp")
    assert dialog.film
    dialog.film.progressed.connect(lambda _: said.append(dialog.words.text()))
    assert not dialog.progress.isTextVisible(), "the line is thinner than letters"
    with qtbot.waitSignal(dialog.finished):
        pass
    assert said[0] == f"Round 0 of 4; about {size_text(forecast)} in the end."


def test_another_conversation_ends_it(qtbot: QtBot, panel: TreePanel, tmp_path: Path) -> None:
    dialog = dialog_of(panel, answer(40))
    dialog.begin(tmp_path / "a.webp")
    with qtbot.waitSignal(dialog.finished):
        panel.clear()
    qtbot.waitUntil(lambda: not list(tmp_path.iterdir()))


def test_closing_the_window_leaves_nothing_half_written(qtbot: QtBot, window: MainWindow, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    dialog = dialog_of(window.tree_panel, answer(40))
    dialog.begin(folder / "a.webp")
    film = dialog.film
    assert film
    with qtbot.waitSignal(film.progressed):
        pass
    assert len(list(folder.iterdir())) == 1
    window.close()
    assert list(folder.iterdir()) == [], "the thread ends with the process, so nothing may be left to it"


def test_a_frame_is_painted_in_steps_as_it_is_at_once() -> None:
    scene, other = (Scene(QSize(*SIZE), CHIPS, DARK.tree, QFont()) for _ in range(2))
    frame = Frame(snapshot(HARD), "Told. ", 100, *added(HARD))
    *before, image = scene.steps(frame)
    assert before == [None, None], "a window that is used meanwhile has a turn between them"
    assert image == other.image(frame)
    scene.close()
    other.close()


def test_without_rounds_there_is_none(panel: TreePanel) -> None:
    panel.exports.export_animation()
    assert "no rounds of an answer" in news(panel).words.text()
    assert not panel.findChildren(AnimationDialog)


@pytest.mark.parametrize("encoder", [WebpEncoder, GifEncoder])
def test_encoders_write_only_what_has_changed(encoder: type[WebpEncoder] | type[GifEncoder]) -> None:
    colors = DARK.tree
    page = Image.new("RGB", (64, 48), colors.background)
    marked = page.copy()
    marked.paste(colors.accepted.line, (21, 11, 30, 20))
    file = io.BytesIO()
    made = encoder(file, page.size, colors, False)
    for image, milliseconds in ((page, 104), (page, 104), (marked, 104), (page, 1), (page, 87)):
        made.add(image, milliseconds)
    made.finish()
    file.seek(0)
    read = Image.open(file)
    wanted, times = [page, marked, page], []
    assert read.n_frames == 3  # type: ignore[attr-defined]
    for index, picture in enumerate(wanted):
        read.seek(index)
        off = ImageChops.difference(read.convert("RGB"), picture).convert("L")
        assert max(off.tobytes()) <= (64 if encoder is WebpEncoder else 4), "nobody sees a difference"
        times.append(read.info["duration"])
    assert sum(times) == pytest.approx(400, abs=4)
    assert times[0] == pytest.approx(208, abs=5)


def test_a_picture_that_stands_too_long_for_a_gif_does_not_hold_up_the_next() -> None:
    file = io.BytesIO()
    encoder = GifEncoder(file, (8, 8), DARK.tree, False)
    for color, lasting in (("red", 1_200_000), ("white", 500), ("red", 500)):
        encoder.add(Image.new("RGB", (8, 8), color), lasting)
    encoder.finish()
    image = Image.open(io.BytesIO(file.getvalue()))
    times = []
    for index in range(3):
        image.seek(index)
        times.append(image.info["duration"])
    assert times == [655_350, 510, 500]


@pytest.mark.parametrize("part", ["told", "accepted", "bonus"])
def test_no_more_of_a_text_is_laid_out_than_can_be_seen(qtbot: QtBot, part: str) -> None:
    scene = Scene(QSize(*SIZE), CHIPS, DARK.tree, QFont())
    (tree,) = answer(1)
    texts = {"told": "so ", "accepted": " far", "bonus": "!", part: "x" * 20_000}
    frame = Frame(snapshot(tree), texts["told"], 0, texts["accepted"], texts["bonus"])
    assert scene._document(frame).characterCount() < 2_000
    scene.close()


def test_the_end_of_a_long_answer_is_shown_from_a_whole_word_on() -> None:
    assert _tail("word " * 1_000 + "end").startswith("… word word ")
    assert len(_tail("字" * 5_000)) > 1_000
    assert len(_tail("字" * 4_000 + " " + "字" * 1_000)) > 1_500
