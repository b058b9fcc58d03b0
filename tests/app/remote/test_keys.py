"""Keys of engines elsewhere: known at once, kept where there is a keyring, asked for again where there was none."""

import threading

import pytest

from app.engine.remote import keys
from app.engine.remote.keys import EngineKeys

ADDRESS = "http://host:1"


class Safe:
    """A keyring that can be locked; while it is busy, it does not answer."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.is_open = True
        self.busy = threading.Lock()

    def read(self, name: str) -> str:
        with self.busy:
            return self.kept.get(name, "") if self.is_open else ""

    def keep(self, name: str, secret: str) -> bool:
        with self.busy:
            if self.is_open:
                self.kept[name] = secret
            return self.is_open

    def forget(self, name: str) -> None:
        self.kept.pop(name, None)


@pytest.fixture
def safe(monkeypatch: pytest.MonkeyPatch) -> Safe:
    """The keyring of this test."""
    made = Safe()
    for name, method in (("read_secret", made.read), ("keep_secret", made.keep), ("forget_secret", made.forget)):
        monkeypatch.setattr(keys, name, method)
    return made


def test_a_keyring_that_refused_is_asked_again(safe: Safe) -> None:
    found = EngineKeys()
    safe.is_open = False
    assert found.of(ADDRESS) == ""
    assert [found.keep(ADDRESS, "secret") for _ in range(2)] == [False, False]
    safe.is_open = True
    assert found.of(ADDRESS) == ""
    assert found.keep(ADDRESS, "secret")
    assert found.of(ADDRESS) == "secret"
    safe.kept.clear()
    assert found.of(ADDRESS) == "secret", "what was found is known"


def test_a_key_is_known_while_the_keyring_is_busy(safe: Safe) -> None:
    found = EngineKeys()
    with safe.busy:
        keeping = threading.Thread(target=found.keep, args=(ADDRESS, "secret"))
        keeping.start()
        found.remember(ADDRESS, "secret")
        assert found.of(ADDRESS) == "secret"
    keeping.join(30)
    found.remember(ADDRESS, "")
    found.forget([ADDRESS])
    assert (found.of(ADDRESS), safe.kept) == ("", {})
