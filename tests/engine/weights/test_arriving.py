"""Which layers are on their way, as the tree panel shows them; seen while a pass is held at one of them."""

import pytest

from engine.observing.watcher import layers_seen
from engine.weights.planning.arrangement import Tier
from engine.weights.streaming.copy_stream import CopyStream
from tests.engine.weights import stand_in
from tests.engine.weights.stand_in import StandInCopyStream
from tests.engine.weights.test_layer_stream import Llama, assert_same, lasting_llama, llama, passes

__all__ = ["lasting_llama", "llama"]


@pytest.mark.parametrize(
    ("tiers", "copy_stream", "moving"),
    [
        (["device"] * 5, StandInCopyStream(), set()),
        (["device", "ram", "ssd", "ram", "ssd"], None, {2, 4}),
        (["device", "ram", "ssd", "ram", "ssd"], StandInCopyStream(), {1, 2, 3, 4}),
        (["ram"] * 5, StandInCopyStream(), {0, 1, 2, 3, 4}),
    ],
)
def test_only_layers_that_move_arrive_and_all_of_them_do(
    tiers: list[Tier],
    copy_stream: CopyStream | None,
    moving: set[int],
    llama: Llama,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stand_in, "PATIENCE_SECONDS", 60.0)  # what is late is on its way until it is waited for
    stream = llama.stream(llama.layouts, tiers, copy_stream, disk_slots=2, device_slots=2)  # type: ignore[arg-type]
    seen: set[int] = set()
    order: list[tuple[int, bool]] = []

    def look(layer: int, waits: bool) -> None:
        order.append((layer, waits))
        seen.update(stream.arriving)

    with layers_seen(llama.streamable.network.layers, look):
        found = passes(llama.context)
    assert_same(found, llama.expected)
    assert seen <= moving
    assert seen or len(moving) <= 2, "nothing was ever seen on its way"  # few and tiny, they are there at once
    assert order == [(layer, waits) for layer in range(5) for waits in (True, False)] * (len(order) // 10)
    before = len(order)
    passes(llama.context)
    assert len(order) == before, "somebody still looks"
    stream.close()
