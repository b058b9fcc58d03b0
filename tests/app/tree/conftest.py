"""A tree panel on the screen, for every test here."""

import pytest
from pytestqt.qtbot import QtBot

from app.tree.panel import TreePanel


@pytest.fixture
def panel(qtbot: QtBot) -> TreePanel:
    panel = TreePanel()
    qtbot.addWidget(panel)
    panel.set_motion(False)  # pictures are of what is shown in the end
    panel.resize(700, 500)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel
