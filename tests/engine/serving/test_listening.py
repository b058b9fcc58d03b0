"""Where a server listens, and what is told where it cannot."""

import socket
from types import SimpleNamespace

import pytest

from engine.serving import listening


@pytest.mark.parametrize(("system", "is_shared"), [("posix", True), ("nt", False)])
def test_a_port_is_taken_again_at_once_but_never_shared(
    system: str, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows the option would let a second program listen at the same port."""
    monkeypatch.setattr(listening, "os", SimpleNamespace(name=system))
    with listening._bound(socket.socket(), ("127.0.0.1", 0)) as bound:
        assert bool(bound.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)) == is_shared
