"""What the hub and the engine say of a model stays text in every part of the dialog."""

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QApplication, QLabel, QToolTip

from app.library.picker.page import Page
from app.ui.theme import Theme
from engine.protocol.messages import Appraise, Appraised
from tests.app.library.picker import conftest
from tests.app.library.picker.conftest import Desk, put_up
from tests.app.plainness import HOSTILE, rich_widgets, texts
from tests.hub import Hub


def test_a_refusal_that_quotes_the_configuration_is_no_html(
    theme: Theme, desk: Desk, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = conftest.appraised

    def refused(question: Appraise) -> Appraised:
        return replace(usual(question), verdict="no", reason=f"'{HOSTILE}' is not known.")

    monkeypatch.setattr(conftest, "appraised", refused)
    put_up(hub, "org/hostile", 10**9, licence=HOSTILE, family=HOSTILE)
    dialog = desk.open()
    desk.search("hostile")
    desk.choose("org/hostile")
    for page in Page:
        dialog.show_page(page)
        QApplication.processEvents()
        assert rich_widgets(dialog) == []
    dialog.show_page(Page.DISCOVER)
    desk.wait(lambda: HOSTILE in dialog.details.estimate.toolTip())
    assert HOSTILE in texts(dialog)
    QToolTip.showText(dialog.pos(), dialog.details.estimate.toolTip(), dialog)
    (label,) = (each for each in QApplication.topLevelWidgets() if each.inherits("QTipLabel") and each.isVisible())
    assert isinstance(label, QLabel)
    assert label.textFormat().name == "PlainText"
    QToolTip.hideText()
