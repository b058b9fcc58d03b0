"""Where a server listens, and what is told where it cannot."""

import socket
from types import SimpleNamespace

import pytest

from engine.errors import InputError
from engine.protocol.serving import ServeOptions
from engine.serving import listening


@pytest.mark.parametrize(("system", "is_shared"), [("posix", True), ("nt", False)])
def test_a_port_is_taken_again_at_once_but_never_shared(
    system: str, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows the option would let a second program listen at the same port."""
    monkeypatch.setattr(listening, "os", SimpleNamespace(name=system))
    with listening._bound(socket.socket(), ("127.0.0.1", 0)) as bound:
        assert bool(bound.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)) == is_shared


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_name_that_no_computer_can_have_is_told_in_a_sentence(host: str) -> None:
    with pytest.raises(InputError, match=f"The server cannot listen at {host}:0: "):
        listening._bind(ServeOptions(host, 0, "key"))
