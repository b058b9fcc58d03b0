"""An access token travels encrypted, or not beyond this computer."""

from pathlib import Path

import pytest

from app.hub.client import HubClient
from app.hub.failures import HubError, Reason
from app.hub.files import describe
from app.hub.place import HubPlace
from app.hub.tokens import may_carry_token, token_for, withheld
from app.system.background import Stop
from tests.hub import Hub

TRUSTED = (
    "https://huggingface.co",
    "https://10.0.0.7:8080",
    "http://127.0.0.1:8",
    "http://localhost",
    "http://[::1]:9",
)
OTHERS = ("http://huggingface.co", "http://10.0.0.7:8080", "http://127.0.0.1.evil.example", "ftp://x", "http://[", "")


@pytest.mark.parametrize("address", TRUSTED)
def test_an_encrypted_or_near_address_gets_the_token(address: str) -> None:
    assert may_carry_token(address)
    assert token_for(address, "secret") == "secret"
    assert withheld(401, address, "secret") is None


@pytest.mark.parametrize("address", OTHERS)
def test_any_other_address_does_not_and_the_log_says_so(address: str, caplog: pytest.LogCaptureFixture) -> None:
    assert token_for(address, "secret") is None
    assert "was not sent" in caplog.text
    assert "secret" not in caplog.text
    assert token_for(address, "") == ""


def test_a_refusal_without_the_token_says_that_it_was_not_sent() -> None:
    found = withheld(401, "http://me:pw@mirror.example:80/x", "secret")
    assert found is not None
    assert found.reason is Reason.NOT_LOGGED_IN
    assert "mirror.example" in found.message
    assert "pw" not in str(found)
    assert "https://" in found.hint
    assert withheld(404, "http://mirror.example", "secret") is None
    assert withheld(401, "http://mirror.example", "") is None


@pytest.fixture
def far_hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A hub that counts as one on another computer."""
    served = Hub()
    served.add("org/private", {"config.json": b"{}"}, private=True, access={"member": "accepted"})
    served.issue_token("member")
    monkeypatch.setattr("app.hub.tokens.may_carry_token", lambda address: address.startswith("https://"))
    return served


def test_no_request_sends_the_token_over_http(far_hub: Hub) -> None:
    client = HubClient(lambda: "member", lambda: HubPlace(far_hub.endpoint, Path()))
    with pytest.raises(HubError, match="was not sent"):
        describe(client, "org/private", "main", Stop())
    with pytest.raises(HubError, match="was not sent"), client.file("org/private", "main", "config.json", Stop(), 0):
        pass
    client.close()
    assert len(far_hub.requests) == 2
    assert not any(each.token for each in far_hub.requests)
    far_hub.close()
