"""What is kept of chats on disk, from the window: told to every engine, and gone with a chat."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.engine.kept_texts import KEPT_NOTICE, KeptConversations
from app.settings.store import SettingsFile
from app.ui.notices import Notice
from engine.kept_files import AUTOMATIC, kept_bytes, kept_folder, make_private, owner_of, part_path
from engine.protocol.keeping import ForgetTexts, KeepTexts, Kept
from engine.protocol.messages import PROTOCOL, Ready
from tests.app.fake_link import FakeLink

READY = Ready(PROTOCOL, 1)


@pytest.fixture
def link(qtbot: QtBot) -> FakeLink:
    return FakeLink()


@pytest.fixture
def kept(link: FakeLink, settings: SettingsFile, tmp_path: Path) -> KeptConversations:
    return KeptConversations(link, settings, tmp_path)


def write(cache: Path, conversation: int) -> Path:
    """A file as the engine names it."""
    folder = kept_folder(cache) / ("a" * 32)
    make_private(folder)
    path = part_path(folder, owner_of(str(conversation)), "0" * 16, 0)
    path.write_bytes(bytes(1000))
    return path


def done(qtbot: QtBot, kept: KeptConversations, act: Callable[[], object]) -> int:
    """How many bytes are kept after something was done."""
    with qtbot.waitSignal(kept.measured) as told:
        act()
    nbytes: int = told.args[0] if told.args else -1
    return nbytes


def test_every_engine_is_told_what_to_keep(
    kept: KeptConversations, link: FakeLink, settings: SettingsFile, qtbot: QtBot, tmp_path: Path
) -> None:
    kept.follow_settings()
    assert link.keeps == [], "there is none yet"
    kept.on_events([READY])
    for chat in (5, 6, 7):
        write(tmp_path, chat)
    settings.change(keep_limit_gb=2.5e-6)
    assert done(qtbot, kept, kept.follow_settings) == 2000, "what is too much goes at once"
    kept.follow_settings()
    kept.on_events([READY])
    cache = str(tmp_path)
    assert link.keeps == [KeepTexts(AUTOMATIC, cache), KeepTexts(2500, cache), KeepTexts(2500, cache)]
    kept.close()


def test_a_chat_takes_its_own_with_it(kept: KeptConversations, link: FakeLink, qtbot: QtBot, tmp_path: Path) -> None:
    one, other = write(tmp_path, 5), write(tmp_path, 6)
    assert done(qtbot, kept, kept.measure) == 2000
    assert done(qtbot, kept, lambda: kept.forget_chat(5)) == 1000
    assert (one.exists(), other.exists()) == (False, True)
    assert done(qtbot, kept, kept.forget_all) == 0
    assert link.keeps == [ForgetTexts(("5",)), ForgetTexts()]
    kept.close()


def test_a_chat_that_is_deleted_last_takes_its_own_with_it_too(
    kept: KeptConversations, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program ends before the thread comes to it."""
    monkeypatch.setattr("app.ui.jobs.start", lambda *_: None)
    one, other = write(tmp_path, 5), write(tmp_path, 6)
    kept.forget_chat(5)
    kept.close()
    assert (one.exists(), other.exists()) == (False, True)


def test_switched_off_nothing_stays(
    kept: KeptConversations, link: FakeLink, settings: SettingsFile, qtbot: QtBot, tmp_path: Path
) -> None:
    write(tmp_path, 5)
    kept.on_events([READY])
    settings.change(keep_texts=False)
    assert done(qtbot, kept, kept.follow_settings) == 0
    assert link.keeps[1:] == [KeepTexts(0, str(tmp_path)), ForgetTexts()]
    assert kept_bytes(kept_folder(tmp_path)) == 0
    kept.close()


def test_what_could_not_be_kept_is_told_until_it_can(kept: KeptConversations, qtbot: QtBot) -> None:
    notices: list[Notice] = []
    kept.notice_raised.connect(notices.append)
    kept.on_events([Kept(7, "The disk is full.")])
    assert [(each.key, each.message) for each in notices] == [(KEPT_NOTICE, "The disk is full.")]
    with qtbot.waitSignal(kept.notice_withdrawn):
        kept.on_events([Kept(8)])
