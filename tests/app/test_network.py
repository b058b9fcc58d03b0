"""How Preferences tell the hub's client where the hub is."""

from app.network import tell
from app.options.preferences import Preferences


def test_nothing_is_told_where_nothing_is_set() -> None:
    environment: dict[str, str] = {}
    tell(Preferences(), environment)
    assert environment == {}


def test_what_is_set_is_told() -> None:
    environment: dict[str, str] = {}
    tell(Preferences(offline=True, endpoint="https://hub.example/", proxy="http://proxy:1"), environment)
    assert environment == {
        "HF_HUB_OFFLINE": "1",
        "HF_ENDPOINT": "https://hub.example",
        "HTTPS_PROXY": "http://proxy:1",
        "HTTP_PROXY": "http://proxy:1",
    }


def test_the_environment_of_this_start_wins() -> None:
    environment = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "https://mine", "https_proxy": "http://other:2"}
    before = dict(environment)
    tell(Preferences(offline=True, endpoint="https://hub.example", proxy="http://proxy:1"), environment)
    assert environment == before
