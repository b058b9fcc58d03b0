"""The fields of how a model is loaded: none is cut off, however narrow they stand and however long their names are."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.library.picker.terms_form import TermsForm


def cut_off(form: TermsForm) -> list[str]:
    """The names of what is narrower than it needs to be, or not inside the form."""
    parts: list[QWidget] = [*form.findChildren(QLabel), *(field for _, field in form._lines)]
    return [
        each.accessibleName() or each.text() if isinstance(each, QLabel) else each.accessibleName()
        for each in parts
        if each.width() < each.minimumSizeHint().width() or not form.rect().contains(each.geometry())
    ]


@pytest.fixture
def form(qtbot: QtBot) -> Iterator[TermsForm]:
    """A form that is as wide as it is told to be."""
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(1500, 900)
    made = TermsForm(window)
    window.show()
    yield made
    window.close()


@pytest.mark.parametrize("longer", ["", " und noch etwas mehr", " und noch sehr viel mehr als nur etwas"])
def test_names_and_fields_are_whole_at_every_width(longer: str, form: TermsForm, qapp: QApplication) -> None:
    for name in form.findChildren(QLabel):
        name.setText(name.text() + longer)
    heights = []
    for width in (1400, 460, form.minimumSizeHint().width()):
        form.resize(width, 500)
        qapp.processEvents()
        assert cut_off(form) == [], width
        heights.append(form.sizeHint().height())
    assert heights == sorted(heights)
    assert heights[0] < heights[-1], "what has no room beside each other stands below each other"
    form.resize(1400, 500)
    qapp.processEvents()
    assert form.sizeHint().height() == heights[0]


def test_larger_text_is_laid_out_anew(form: TermsForm, qapp: QApplication) -> None:
    form.resize(520, 500)
    qapp.processEvents()
    font = form.font()
    font.setPointSizeF(font.pointSizeF() * 1.75)
    form.setFont(font)
    qapp.processEvents()
    assert cut_off(form) == []


def test_scrolling_past_a_field_does_not_change_it(form: TermsForm, qapp: QApplication) -> None:
    before = form.terms
    for field in (form.weights, form.place, form.context, form.budget, form.vram, form.ram, form.kv, form.activations):
        at = QPointF(field.rect().center())
        turn = QWheelEvent(
            at,
            field.mapToGlobal(at),
            QPoint(),
            QPoint(0, -120),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        qapp.sendEvent(field, turn)
    assert form.terms == before
