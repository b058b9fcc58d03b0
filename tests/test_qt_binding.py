"""The Qt binding is one that keeps count of its references."""

import sys

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot


def test_calls_that_return_none_do_not_wear_none_out(qtbot: QtBot) -> None:
    """PySide6 6.12 on Python 3.11 loses one reference to None per call and aborts after some thousands."""
    widget = QWidget()
    qtbot.addWidget(widget)
    before = sys.getrefcount(None)
    for _ in range(200):
        widget.update()
    assert sys.getrefcount(None) > before - 100
