"""The list of drafts tells more of a draft with another vocabulary to those who point at it."""

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.library.pairing.drafts import Candidate, DraftChoice
from app.library.picker.draft_list import DraftModel


@pytest.mark.parametrize(("common", "is_told"), [(0.83, True), (1.0, False)])
def test_the_tip_tells_how_another_vocabulary_is_used(common: float, is_told: bool, qtbot: QtBot) -> None:
    del qtbot
    model = DraftModel()
    model.replace((DraftChoice(Candidate("org/small", "small", 1, 1), True, "It is small.", common=common),))
    tip = str(model.index(0).data(Qt.ItemDataRole.ToolTipRole))
    assert "It is small." in tip
    assert ("translated token by token" in tip) == is_told
    assert "translated" not in str(model.index(1).data(Qt.ItemDataRole.ToolTipRole)), "no draft, nothing to translate"
