"""Where the layers are: every one has its cell, in the memory that holds it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPointF
from pytestqt.qtbot import QtBot

from app.telemetry.charts.memory_picture import MemoryPicture, bars_of, describe
from app.ui.theme import LIGHT
from tests.app.telemetry.rounds import GIB, loaded

TIERS = st.lists(st.sampled_from(["device", "ram", "ssd"]), min_size=1, max_size=90).map(tuple)


@given(TIERS, st.booleans(), st.booleans())
def test_every_layer_has_one_cell_in_its_memory(tiers: tuple[str, ...], shared: bool, known: bool) -> None:
    pair = loaded(tiers, shared=shared)
    bars = bars_of(pair if known else replace(pair, residence=None))
    cells = [cell for bar in bars for cell in bar.cells]
    assert sorted(cell.layer for cell in cells if cell.layer is not None) == list(range(len(tiers)))
    assert all(cell.kind == tiers[cell.layer] for cell in cells if cell.layer is not None)
    assert sum(bar.layers for bar in bars) == len(tiers)


@given(TIERS, st.booleans())
def test_cells_lie_side_by_side(tiers: tuple[str, ...], shared: bool) -> None:
    for bar in bars_of(loaded(tiers, shared=shared)):
        ends = [0.0, *(cell.end for cell in bar.cells)]
        assert [cell.start for cell in bar.cells] == pytest.approx(ends[:-1])
        assert ends[-1] == pytest.approx(1.0) or not bar.cells


def test_bars_of_a_gpu_and_of_none() -> None:
    assert [bar.name for bar in bars_of(loaded())] == ["GPU", "RAM", "SSD"]
    assert [bar.name for bar in bars_of(loaded(("device", "device"), shared=True))] == ["RAM"]
    gpu = bars_of(loaded())[0]
    assert (gpu.layers, gpu.taken, gpu.room) == (12, 11 * GIB, 22 * GIB)


def test_pointing_at_a_cell_tells_its_layer(qtbot: QtBot) -> None:
    picture = MemoryPicture()
    qtbot.addWidget(picture)
    picture.set_colors(LIGHT)
    picture.resize(400, 200)
    picture.show_pair(loaded())
    cell = picture.cell_at(QPointF(3, picture.fontMetrics().lineSpacing() + 10))
    assert cell is not None
    assert describe(cell) == describe(cell, only_experts=True) == "Layer 1 on the device, 537 MB"
    assert describe(replace(cell, kind="ssd"), only_experts=True) == "Experts of layer 1 on SSD, 537 MB"
    assert picture.cell_at(QPointF(3, 1)) is None
    assert picture.text.startswith("GPU: 12 layers, 11.8 GB of 23.6 GB; RAM: 24 layers")
