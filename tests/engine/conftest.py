"""What the engine's tests share."""

from collections.abc import Iterator

import pytest

from engine.loading import measuring, rates
from tests.engine.child import Child, started


@pytest.fixture(scope="session")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    """One process for all tests that end none: to start one takes 5 s of a processor."""
    with started(tmp_path_factory.mktemp("engine")) as child:
        yield child


@pytest.fixture(scope="session", autouse=True)
def little_to_measure() -> Iterator[None]:
    """A machine that streams is measured first: here with small buffers, or it takes 2 s for every cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"COPY_BYTES": 4 << 20, "MATRIX_ELEMENTS": 1 << 18, "PACKED_ELEMENTS": 1 << 16}.items():
            patch.setattr(measuring, name, value)
        for module in (measuring, rates):
            patch.setattr(module, "READ_BYTES", 4 << 20)
        yield
