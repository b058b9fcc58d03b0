"""The box with the ways of a pair: sentences at once, figures on demand."""

from dataclasses import replace

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.library.picker.ways_box import WaysBox
from engine.protocol.messages import Appraised, WayTold
from engine.protocol.sentences import say

PLAIN = WayTold(
    "plain", say("one token per pass"), (8, 0, 0), 0, 1.0, 0.1, 10.0, "memory", "the rate of the memory", True
)
TREE = replace(PLAIN, name="tree", words=say("best tree"), nodes=48, tokens_per_pass=6.0, tokens_per_second=31.0)
FAST = replace(PLAIN, name="nf4", words=say("weights in 4 bits"), tokens_per_second=90.0, is_measured=False)
FOUND = Appraised(
    1, "ssd", "", ways=(PLAIN, TREE, FAST), trees="A tree pays.", advice=("With weights in 4 bits: more.",),
    basis="Tokens per pass are assumed.", measured_at="2026-11-23T10:00:00+00:00",
)  # fmt: skip


def tips(box: WaysBox) -> list[str]:
    """What is told where one points at a way."""
    widgets = (box._rows.itemAtPosition(row, 0).widget() for row in range(len(box.cells())))  # type: ignore[union-attr]
    return [" ".join(each.toolTip().split()) for each in widgets if each is not None]


def test_sentences_are_told_at_once_and_figures_on_demand(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    box = WaysBox(window)
    assert box.isHidden()
    box.show_ways(FOUND)
    assert box.words.text() == "A tree pays.\nWith weights in 4 bits: more."
    assert box.table.isHidden()
    box.toggle.click()
    assert not box.table.isHidden()
    assert box.cells() == [
        ["one token per pass", "10 tokens/s", "", "bound by the rate of the memory"],
        ["best tree", "31 tokens/s", "48 nodes", "bound by the rate of the memory"],
        ["weights in 4 bits", "90 tokens/s", "", "assumed: the rate of the memory"],
    ]
    assert "8 stay where they are computed, 0 come from RAM and 0 from SSD" in tips(box)[1]
    assert "take 100 ms and give 6.0 tokens" in tips(box)[1]
    assert box.basis.text() == "Rates were measured here on 2026-11-23. Tokens per pass are assumed."
    box.show_ways(replace(FOUND, ways=(PLAIN,), trees="", advice=(), measured_at=""))
    assert box.words.isHidden()
    assert len(box.cells()) == 1
    assert box.basis.text().startswith("Rates are assumed: ")
    experts = replace(PLAIN, name="experts", words=say("experts where they lie"), tokens_per_second=32.0)
    box.show_ways(replace(FOUND, ways=(PLAIN, TREE, experts)))
    assert box.cells()[-1][:2] == ["experts where they lie", "32 tokens/s"]
    box.show_ways(None)
    assert box.isHidden()
