"""What a conversation holds that is long, or shown for long: no more than is near the reader."""

from dataclasses import replace

import shiboken6
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QApplication

from app.chat.view.conversation_view import ConversationView
from app.ui.theme import DARK
from tests.app.chat.view.test_views import fill, settle


def documents() -> int:
    """Qt's own documents count, too, once Python has seen them; what belongs to nobody stays for good."""
    return sum(isinstance(each, QTextDocument) for each in shiboken6.getAllValidWrappers())


def test_other_widths_sizes_and_colours_leave_no_document_behind(view: ConversationView) -> None:
    fill(view, 3)
    before = documents()
    for width in (900, 800, 700, 1000):
        view.resize(width, 400)
        settle()
    view.set_theme(DARK)
    settle()
    assert documents() <= before


def test_what_nobody_sees_is_not_written_anew_in_another_size(view: ConversationView) -> None:
    fill(view, 20)
    assert len(view.column.views) == 40
    near = [index for index, each in view.column.built if each.visibleRegion()]
    look = view.look
    view.set_look(replace(look, zoom=150))
    assert {38, 39} <= {index for index, _ in view.column.built}, "the last turn is always there"
    assert set(near) <= {index for index, _ in view.column.built}
    assert len(view.column.views) < 12
    view.verticalScrollBar().setValue(0)
    QApplication.processEvents()
    settle()
    top = view.column.view(0)
    assert top is not None, "it is made when the reader comes"
    assert top.text.font().pointSizeF() > 1.4 * look.points


def test_what_reaches_into_a_part_is_found_without_looking_at_every_message(view: ConversationView) -> None:
    fill(view, 6)
    column = view.column
    spans = [(top, top + height) for top, height in zip(column._tops, column._heights, strict=True)]
    edges = sorted({int(edge) + step for span in spans for edge in span for step in (-1, 0, 1)} | {-50, 10**6})
    for top in edges:
        for bottom in (top, top + 1, top + 300, 10**6):
            expected = [place for place, (begin, end) in enumerate(spans) if begin < bottom and end > top]
            assert column._between(top, bottom) == expected
