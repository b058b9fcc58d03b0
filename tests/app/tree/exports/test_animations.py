"""Animations of answers: they open again, say how long they last, and leave nothing where they are not finished."""

import errno
import io
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from PySide6.QtCore import QSize
from PySide6.QtGui import QFont
from pytestqt.qtbot import QtBot

from app.shell.window import MainWindow
from app.tree.exports.animations import formats
from app.tree.exports.animations.dialog import AnimationDialog
from app.tree.exports.animations.formats import FORMATS, AnimationFormat
from app.tree.exports.animations.gif import GifEncoder
from app.tree.exports.animations.scene import Scene
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
    with qtbot.waitSignal(dialog.finished, timeout=20_000):
        dialog.begin(path)
    assert news(panel).words.text().startswith(f"The animation is in a{suffix}: 4 s, ")
    image, times = opened(path)
    assert image.size == SIZE
    assert sum(times) == 3 * 500 + 2500
    assert 9 <= len(times) <= 21, "growth, check and outcome of three rounds"
    assert image.info["loop"] == 0
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert panel.player.is_live


def test_cancelling_leaves_what_was_there(qtbot: QtBot, panel: TreePanel, tmp_path: Path) -> None:
    dialog = dialog_of(panel, answer(40))
    path = tmp_path / "a.webp"
    path.write_bytes(b"an older one")
    dialog.begin(path)
    film = dialog.film
    assert film
    with qtbot.waitSignal(film.progressed, timeout=20_000):
        pass
    assert len(list(tmp_path.iterdir())) == 2
    dialog.reject()
    qtbot.waitUntil(lambda: [each.name for each in tmp_path.iterdir()] == [path.name])
    assert path.read_bytes() == b"an older one"
    assert not film.is_running


def test_a_full_disk_and_a_folder_that_is_gone_are_told(
    qtbot: QtBot, panel: TreePanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialog = dialog_of(panel, answer(2))
    dialog.begin(tmp_path / "gone" / "a.webp")
    qtbot.waitUntil(lambda: "its folder is not there any more" in dialog.words.text())
    assert dialog.save.isEnabled()

    def full(_self: WebpEncoder, _image: Image.Image, _milliseconds: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(WebpEncoder, "add", full)
    dialog.begin(tmp_path / "a.webp")
    qtbot.waitUntil(lambda: "the disk is full" in dialog.words.text())
    dialog.begin(tmp_path / "a.mp4")
    assert "Choose one of these: .webp, .gif" in dialog.words.text()
    missing = AnimationFormat("GIF", ".gif", "GIF (*.gif)", ("no_such_module", ""), 0)
    monkeypatch.setattr(formats, "FORMATS", (missing,))
    dialog.begin(tmp_path / "a.gif")
    qtbot.waitUntil(lambda: "the library for it is missing" in dialog.words.text())
    assert list(tmp_path.iterdir()) == []


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
    with qtbot.waitSignal(film.progressed, timeout=20_000):
        pass
    assert len(list(folder.iterdir())) == 1
    window.close()
    assert list(folder.iterdir()) == [], "the thread ends with the process, so nothing may be left to it"


def test_a_frame_is_painted_in_steps_as_it_is_at_once() -> None:
    scene = Scene(QSize(*SIZE), CHIPS, DARK.tree, QFont())
    frame = Frame(snapshot(HARD), "Told. ", 100, *added(HARD))
    *before, image = scene.steps(frame)
    assert before == [None, None], "a window that is used meanwhile has a turn between them"
    assert image == scene.image(frame)
    scene.close()


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
