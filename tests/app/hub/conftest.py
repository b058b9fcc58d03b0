"""The loopback hub, and a client for it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.hub.client import HubClient
from app.hub.place import HubPlace, hub_place
from app.system.background import Stop
from tests.hub import Hub
from tests.hub.fixture import hub

__all__ = ["hub"]


Connect = Callable[..., HubClient]


@pytest.fixture
def connect(hub: Hub) -> Iterator[Connect]:
    """Makes clients, with the token that is given and little patience."""
    made: list[HubClient] = []

    def make(token: str = "", endpoint: str = "", stall_seconds: float = 0.25) -> HubClient:
        find_place = (lambda: HubPlace(endpoint, Path())) if endpoint else hub_place
        made.append(HubClient(lambda: token, find_place, stall_seconds=stall_seconds))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def client(connect: Connect) -> HubClient:
    """A client without a token."""
    return connect()


@pytest.fixture
def stop() -> Stop:
    """A stop that nobody has asked for yet."""
    return Stop()
