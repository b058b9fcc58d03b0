"""What the engine's tests share."""

from collections.abc import Iterator

import pytest

from engine.loading.measurements import benchmark, measuring, overheads
from engine.protocol.messages import Shutdown
from tests.campaigns.extent import is_whole
from tests.engine.child import PATIENCE_SECONDS, Child, started
from tests.engine.weights.stand_in import Computation, adversary

LAST = 900  # a number above those of all requests in the tests


@pytest.fixture(scope="session")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    """One process for all tests that end none: to start one takes 7 s of a processor.

    Who has finished with it tells it to end in the middle of an answer, which it does at once and well. The numbers of
    requests grow from one file of tests to the next.
    """
    with started(tmp_path_factory.mktemp("engine")) as child:
        yield child
        child.load(LAST)
        child.start_endless(LAST + 1)
        child.connection.send(Shutdown())
        assert child.process.wait(PATIENCE_SECONDS) == 0


@pytest.fixture(scope="session", autouse=True)
def little_to_measure() -> Iterator[None]:
    """A machine that streams is measured first: here with small buffers, or it takes 2 s for every cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"COPY_BYTES": 4 << 20, "MATRIX_ELEMENTS": 1 << 18, "PACKED_ELEMENTS": 1 << 16}.items():
            patch.setattr(measuring, name, value)
        for module in (measuring, benchmark):
            patch.setattr(module, "READ_BYTES", 4 << 20)
        for name, few in {"NARROW_REPEATS": 1, "CALL_ROWS": (1, 4), "TREE_REPEATS": 1, "ROUND_REPEATS": 1}.items():
            patch.setattr(overheads, name, few)
        yield


@pytest.fixture(autouse=True)
def against_an_adversary(request: pytest.FixtureRequest) -> Iterator[Computation]:
    """Streams have their slots poisoned and watched, and copies to the stand-in for a GPU arrive as late as they may.

    Besides, the proofs watch every operation of the layers, and so does a file of tests that says WATCH_OPERATIONS.
    """
    with adversary(getattr(request.module, "WATCH_OPERATIONS", is_whole())) as computation:
        yield computation
