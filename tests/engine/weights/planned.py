"""Models and machines to plan for: of every kind and size, told in figures alone."""

from hypothesis import strategies as st

from engine.weights.planning.machine import Machine, Memory, Rates, Rings
from engine.weights.planning.needs import Codec, Layer, ModelNeeds, PassShape

MIB = 1 << 20


@st.composite
def models(draw: st.DrawFn) -> ModelNeeds:
    """Layers alike or of different sizes, dense or with experts, stored in fewer bits or not."""
    codec: Codec = draw(st.sampled_from(("plain", "cast", "nf4", "int8")))
    count = draw(st.integers(1, 24))
    kinds = draw(st.lists(st.integers(1, 50), min_size=1, max_size=2))
    sizes = [draw(st.sampled_from(kinds)) * MIB for _ in range(count)]
    value_bytes = draw(st.sampled_from((2, 4)))
    bits = {"plain": 8 * value_bytes, "cast": 16, "nf4": 4, "int8": 8}[codec]
    active = draw(st.sampled_from((1, 4)))
    experts, chosen = (32, 4) if active > 1 and draw(st.booleans()) else (0, 0)
    layers = tuple(
        Layer(
            size * bits // 8,
            size * value_bytes,
            size,
            size // active,
            size * bits // 10 if active > 1 else 0,
            experts=experts,
            chosen=chosen,
        )
        for size in sizes
    )
    shape = PassShape(
        draw(st.integers(100, 200_000)),
        draw(st.integers(16, 8192)),
        heads=8,
        query_width=draw(st.integers(16, 8192)),
        widest=draw(st.integers(16, 30_000)),
        value_bytes=value_bytes,
        eager=draw(st.booleans()),
    )
    return ModelNeeds(codec, layers, draw(st.integers(0, 500)) * MIB, draw(st.integers(16, 50_000)), shape)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """With and without a GPU, from far too small to far too large, in every proportion of speeds."""
    memory = Memory(
        ram_free=draw(st.integers(0, 4000)) * MIB,
        ram_reserve=draw(st.integers(0, 200)) * MIB,
        vram_free=draw(st.integers(0, 4000)) * MIB,
        vram_reserve=draw(st.integers(0, 200)) * MIB,
        has_gpu=draw(st.booleans()),
    )
    speeds = st.floats(0.01, 1000)
    rates = Rates(draw(speeds), draw(speeds), draw(speeds), draw(speeds), draw(speeds))
    return Machine(memory, rates, Rings(draw(st.integers(1, 4)), draw(st.integers(1, 3))))
