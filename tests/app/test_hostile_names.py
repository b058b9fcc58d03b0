"""A window in which everything that comes from elsewhere names a file to be opened: none of it is read as HTML."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.shell.dialogs import ReportDialog, ShortcutsDialog, about_box
from app.shell.window import MainWindow
from app.ui.notices import Notice
from engine.protocol.messages import PROTOCOL, Failed, Finished, Loading, Ready
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import loaded
from tests.app.fake_link import FakeLink
from tests.app.plainness import HOSTILE, rich_widgets, texts
from tests.app.test_accessibility import PLACES, leave, pages


@pytest.fixture
def hostile(open_window: OpenWindow, link: FakeLink, tmp_path: Path) -> MainWindow:
    """Names of models, notices, a title, a file, an answer and its tokens, all of the same kind."""
    window = open_window(link)
    link.engine_starting.emit()
    link.answer(Ready(PROTOCOL, 4711))
    pair = loaded(link.last_load.id, HOSTILE)
    assert pair.draft is not None
    pair = replace(pair, draft=replace(pair.draft, name=HOSTILE))
    link.answer(Loading(link.last_load.id, f"Loading {HOSTILE}", 0, 2), pair, Finished(pair.id, "loaded"))
    window.notices.add(Notice("any", HOSTILE, hint=HOSTILE, action=HOSTILE))
    file = tmp_path / HOSTILE.replace("/", "_")
    file.write_text("x")
    window.chat_panel.composer.attach([file])
    window.chat.ask(HOSTILE)
    link.say(HOSTILE, f"`{HOSTILE}`", f"\n\n```{HOSTILE}\n{HOSTILE}\n```\n\n${HOSTILE}$\n")
    link.finish()
    window.chat.ask(HOSTILE)
    link.answer(Failed(link.last_question.id, HOSTILE, HOSTILE))
    return window


def test_no_text_from_elsewhere_is_read_as_html(hostile: MainWindow, tmp_path: Path) -> None:
    """Every place of the same window, one after the other; the small windows at the end."""
    for place in PLACES:
        root = place(hostile)
        for page in pages(root):
            page()
            QApplication.processEvents()
            assert rich_widgets(root) == []
        leave(root)
        assert HOSTILE in texts(hostile), "it is there, as it is"
    report = tmp_path / "report.txt"
    report.write_text(HOSTILE)
    shortcuts = ShortcutsDialog([(HOSTILE, HOSTILE)], hostile)
    for each in (about_box(HOSTILE, hostile), shortcuts, ReportDialog(report, hostile)):
        each.show()
        assert rich_widgets(each) == []
        assert HOSTILE in texts(each)
        each.reject()
