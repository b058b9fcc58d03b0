"""Certificates that the environment names and that are not there are told as such, by every client."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.engine.remote.failures import RemoteError
from app.engine.remote.wire import Wire
from app.hub.client import HubClient
from app.hub.failures import HubError, Reason
from app.hub.place import HubPlace
from app.system.background import Stop
from app.system.http import trust

NAMED = "The certificates that SSL_CERT_FILE names cannot be read: {}. Let it name a file"


@pytest.fixture(params=["missing", "no certificates"])
def named(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The file that the variable names."""
    file = tmp_path / "authorities.pem"
    if request.param != "missing":
        file.write_text("nothing of the kind", encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    trust.cache_clear()
    yield str(file)
    trust.cache_clear()


def test_the_hub_is_not_asked(named: str) -> None:
    client = HubClient(str, lambda: HubPlace("https://hub.example", Path()))
    with pytest.raises(HubError) as raised:
        client.json("/api/models", Stop(), 1000)
    client.close()
    assert raised.value.reason is Reason.OFFLINE
    assert str(raised.value).startswith(NAMED.format(named))


def test_an_engine_elsewhere_is_not_asked(named: str) -> None:
    with pytest.raises(RemoteError) as raised:
        Wire("https://engine.example").text("/v1/models", Stop())
    assert str(raised.value).startswith(NAMED.format(named))
