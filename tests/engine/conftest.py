"""What the engine's tests share."""

from collections.abc import Iterator

import pytest

from tests.engine.child import Child, started


@pytest.fixture(scope="session")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    """One process for all tests that end none: to start one takes 5 s of a processor."""
    with started(tmp_path_factory.mktemp("engine")) as child:
        yield child
