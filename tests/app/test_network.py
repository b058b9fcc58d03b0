"""How Preferences tell the hub's clients where the hub is, at once and without a new start."""

import os

import pytest
from huggingface_hub import constants

from app.hub.client import HubClient
from app.hub.place import hub_place
from app.settings.network import Network
from app.settings.preferences import Preferences

NAMES = ("HF_HUB_OFFLINE", "HF_ENDPOINT", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy")


def test_nothing_is_told_where_nothing_is_set() -> None:
    environment: dict[str, str] = {}
    Network(environment).tell(Preferences())
    assert environment == {}


def test_what_is_set_is_told_and_taken_back() -> None:
    environment = {"HOME": "/home/me"}
    network = Network(environment)
    network.tell(Preferences(offline=True, endpoint="https://hub.example/", proxy="http://proxy:1"))
    assert environment == {
        "HOME": "/home/me",
        "HF_HUB_OFFLINE": "1",
        "HF_ENDPOINT": "https://hub.example",
        "HTTPS_PROXY": "http://proxy:1",
        "HTTP_PROXY": "http://proxy:1",
    }
    network.tell(Preferences(endpoint="https://other.example"))
    assert environment == {"HOME": "/home/me", "HF_ENDPOINT": "https://other.example"}
    network.tell(Preferences())
    assert environment == {"HOME": "/home/me"}


def test_the_environment_of_this_start_wins() -> None:
    environment = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "https://mine", "https_proxy": "http://other:2"}
    before = dict(environment)
    network = Network(environment)
    network.tell(Preferences(offline=True, endpoint="https://hub.example", proxy="http://proxy:1"))
    assert environment == before
    network.tell(Preferences())
    assert environment == before


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    """On the process's own environment and the hub's own library, both as on a first day."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "ENDPOINT", "https://huggingface.co")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return Network(os.environ)


def test_clients_that_live_already_follow_at_once(network: Network) -> None:
    client = HubClient()
    assert client.endpoint == hub_place().endpoint == "https://huggingface.co"
    try:
        network.tell(Preferences(endpoint="https://hub.example", offline=True))
        assert client.endpoint == hub_place().endpoint == "https://hub.example"
        assert hub_place().is_offline
    finally:
        network.tell(Preferences())
    assert client.endpoint == hub_place().endpoint == "https://huggingface.co"
    assert not hub_place().is_offline


def test_a_new_proxy_is_used_by_the_next_request(network: Network) -> None:
    client = HubClient()
    try:
        direct = client._opened(client.endpoint)[0]
        assert client._opened(client.endpoint)[0] is direct
        network.tell(Preferences(proxy="http://proxy.example:3128"))
        through = client._opened(client.endpoint)[0]
        assert through is not direct
        assert not direct.is_closed, "a request may still be under way"
        network.tell(Preferences())
        assert client._opened(client.endpoint)[0] is not through
    finally:
        network.tell(Preferences())
        client.close()
    assert direct.is_closed
