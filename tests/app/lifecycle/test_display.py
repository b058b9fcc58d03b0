"""The desktop goes away under the window: what Qt says then is heard, once."""

import logging

import pytest
from PySide6.QtCore import QMessageLogContext, QtMsgType, qWarning

from app.shell.application import DisplayWatch

X11 = "The X11 connection broke (error 1). Did the X11 server die?"
WAYLAND = "The Wayland connection broke. Did the Wayland compositor die?"
PROTOCOL = "The Wayland connection experienced a fatal error: Protocol error"


@pytest.mark.parametrize("words", [X11, WAYLAND, PROTOCOL])
def test_the_last_words_of_qt_are_heard_once(words: str) -> None:
    calls: list[str] = []
    watch = DisplayWatch(lambda: calls.append("lost"))
    for _ in range(2):
        watch.on_message(QtMsgType.QtWarningMsg, QMessageLogContext(), words)
    assert calls == ["lost"]


def test_other_words_go_to_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []
    watch = DisplayWatch(lambda: calls.append("lost"))
    with caplog.at_level(logging.DEBUG):
        watch.on_message(QtMsgType.QtWarningMsg, QMessageLogContext(), "a font is missing: 100 %")
        watch.on_message(QtMsgType.QtDebugMsg, QMessageLogContext(), "in passing")
    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("WARNING", "a font is missing: 100 %"),
        ("DEBUG", "in passing"),
    ]
    assert calls == []


@pytest.mark.no_qt_log
def test_qt_is_heard_between_begin_and_end(caplog: pytest.LogCaptureFixture) -> None:
    watch = DisplayWatch(lambda: None)
    watch.begin()
    qWarning("heard")
    watch.end()
    assert "heard" in caplog.messages
