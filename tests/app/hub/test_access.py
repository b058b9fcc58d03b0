"""Access: each reason why a model is not handed out has its own sentence, before anything is downloaded."""

import logging
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring
from keyring.errors import PasswordDeleteError

from app.hub.facts import fetch_facts
from app.hub.failures import HubError, Reason
from app.hub.tokens import Token, TokenOrigin, Tokens
from app.system.background import Stop
from tests.app.hub.conftest import Connect
from tests.app.hub.repositories import tiny
from tests.hub import Hub, redirect

TOKENS = ("member", "stranger", "waiting", "rejected")


class Memory(KeyringBackend):
    """A keyring that forgets at the end of the test."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def delete_password(self, service: str, username: str) -> None:
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError("nothing there")


@pytest.fixture
def memory() -> Iterator[Memory]:
    before, made = keyring.get_keyring(), Memory()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


@pytest.fixture
def gated(hub: Hub) -> Hub:
    access = {"member": "accepted", "waiting": "pending", "rejected": "rejected"}
    hub.add("org/gated", tiny(), gated="manual", access=access)
    hub.add("org/private", tiny(), private=True, access=access)
    hub.add("org/gone", tiny(), disabled=True)
    for token in TOKENS:
        hub.issue_token(token)
    return hub


@pytest.mark.parametrize(
    ("repo", "token", "trouble", "said"),
    [
        ("org/gated", "", Reason.NOT_LOGGED_IN, "accepted its licence, and you are not logged in"),
        ("org/gated", "made-up", Reason.NOT_LOGGED_IN, "does not accept the token"),
        ("org/gated", "stranger", Reason.LICENCE_NOT_ACCEPTED, "You have not accepted the licence"),
        ("org/gated", "waiting", Reason.REFUSED, "awaits a review"),
        ("org/gated", "rejected", Reason.REFUSED, "have refused you access"),
        ("org/gone", "member", Reason.REFUSED, "does not hand out org/gone"),
        ("org/private", "stranger", Reason.NOT_FOUND, "no model org/private"),
        ("org/nothing", "member", Reason.NOT_FOUND, "Check the name"),
        ("org/nothing", "", Reason.NOT_FOUND, "if it is private, log in first"),
    ],
)
def test_every_refusal_has_its_own_sentence(
    repo: str, token: str, trouble: Reason, said: str, gated: Hub, connect: Connect
) -> None:
    client = connect(token)
    with pytest.raises(HubError, match=said) as caught:
        client.small_file(repo, "main", "config.json", Stop(), 1 << 20)
    assert caught.value.reason is trouble
    if trouble in (Reason.LICENCE_NOT_ACCEPTED, Reason.REFUSED):
        assert caught.value.page == f"{gated.endpoint}/{repo}"
    assert len(gated.requests) == 1


def test_who_may_gets_in(gated: Hub, connect: Connect, tmp_path: Path) -> None:
    client = connect("member")
    for repo in ("org/gated", "org/private"):
        client.small_file(repo, "main", "config.json", Stop(), 1 << 20)
        assert fetch_facts(client, repo, tmp_path, Stop()).weight_bytes > 0


def test_the_token_goes_to_the_hubs_host_alone_and_into_no_log(
    gated: Hub, connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    gated.fail("config.json", redirect(f"{gated.cdn}/org/gated/config.json?signature=s"), method="GET", server="hub")
    client = connect("member")
    fetch_facts(client, "org/gated", tmp_path, Stop())
    assert {request.token for request in gated.requests if request.server == "hub"} == {"member"}
    assert {request.token for request in gated.requests if request.server == "cdn"} == {""}
    assert "member" not in caplog.text
    assert "signature" not in caplog.text


def test_a_moved_model_keeps_its_token_on_the_way(gated: Hub, connect: Connect) -> None:
    gated.rename("org/gated", "org/new")
    assert connect("member").small_file("org/gated", "main", "config.json", Stop(), 1 << 20)


def test_a_token_is_found_where_it_is_and_in_this_order(
    hub: Hub, memory: Memory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert Tokens().current() == Token()
    (tmp_path / "hf").mkdir(exist_ok=True)
    (tmp_path / "hf" / "token").write_text("from-file\n")
    assert Tokens().current() == Token("from-file", TokenOrigin.HUB_CLIENT)
    Tokens().keep(" from-keyring\n")
    assert Tokens().current() == Token("from-keyring", TokenOrigin.KEYRING)
    monkeypatch.setenv("HF_TOKEN", "from-environment")
    assert Tokens().current() == Token("from-environment", TokenOrigin.ENVIRONMENT)
    monkeypatch.delenv("HF_TOKEN")
    tokens = Tokens()
    tokens.forget()
    assert tokens.current().origin is TokenOrigin.HUB_CLIENT
    tokens.forget()
    assert memory.kept == {}


def test_a_token_does_not_show_itself() -> None:
    assert "hf_secret" not in repr(Token("hf_secret", TokenOrigin.KEYRING))


def test_without_a_keyring_it_says_what_to_do_instead(hub: Hub, memory: Memory) -> None:
    keyring.set_keyring(NoKeyring())  # type: ignore[no-untyped-call]
    tokens = Tokens()
    with pytest.raises(HubError, match="HF_TOKEN"):
        tokens.keep("hf_secret")
    assert tokens.current() == Token()
    tokens.forget()


@pytest.mark.parametrize("junk", ["", "  ", "two words", "tab\tbetween", "ü", "x" * 600])
def test_what_is_no_token_is_not_kept_or_sent(
    junk: str, hub: Hub, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HubError, match="no access token"):
        Tokens().keep(junk)
    monkeypatch.setenv("HF_TOKEN", junk)
    assert Tokens().current() == Token()
