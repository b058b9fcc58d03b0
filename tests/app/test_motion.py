"""Whether anything may move: what a person has set, and what the system says."""

import sys

import pytest
from PySide6.QtWidgets import QApplication, QProxyStyle, QStyle
from pytestqt.qtbot import QtBot

from app.ui.motion import may_move


class StillStyle(QProxyStyle):
    """A style without animations."""

    def styleHint(self, hint: QStyle.StyleHint, *rest: object) -> int:
        """Of their duration it says 0."""
        return 0 if hint == QStyle.StyleHint.SH_Widget_Animation_Duration else 1


@pytest.mark.parametrize("reduced", [True, False])
def test_a_person_decides(qtbot: QtBot, reduced: bool) -> None:
    assert may_move(reduced) is not reduced


@pytest.mark.skipif(sys.platform == "win32", reason="there the system is asked")
def test_a_style_without_animations_is_believed(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    style = StillStyle()
    monkeypatch.setattr(QApplication, "style", lambda: style)
    assert not may_move(False)
