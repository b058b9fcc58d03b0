"""The `hub` fixture: a loopback hub that this process, its hub client and its children use for one test."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.hub.server import Hub


def time_out_only_at_stalls(is_stalled: Callable[[Any], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads of this process time out only where the server will send nothing more to the client at that address.

    A busy machine may keep a server from answering for longer than a test lets a connection stand still.
    """
    receive = socket.socket.recv

    def patiently(self: socket.socket, count: int, flags: int = 0) -> bytes:
        while True:
            nothing_comes = is_stalled(self.getsockname())  # asked first: the read may be what takes the last bytes
            try:
                return receive(self, count, flags)
            except TimeoutError:
                if nothing_comes:
                    raise

    monkeypatch.setattr(socket.socket, "recv", patiently)


@contextmanager
def serving(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that this process uses; HF_HOME is `folder / "hf"`, no token, no proxy, nothing is offline.

    The hub client reads its variables when it is imported, so its constants are set as well.
    """
    import huggingface_hub
    from huggingface_hub import constants

    served, home = Hub(), folder / "hf"
    for name, value in served.environment(home).items():
        if value:
            monkeypatch.setenv(name, value)
        else:
            monkeypatch.delenv(name, raising=False)
    for name, constant in {
        "ENDPOINT": served.endpoint,
        "HUGGINGFACE_CO_URL_TEMPLATE": served.endpoint + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HOME": str(home),
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_TOKEN_PATH": str(home / "token"),
        "HF_STORED_TOKENS_PATH": str(home / "stored_tokens"),
        "HF_HUB_OFFLINE": False,
    }.items():
        monkeypatch.setattr(constants, name, constant)
    monkeypatch.setattr("huggingface_hub.utils._cache_manager.HF_HUB_CACHE", str(home / "hub"))
    time_out_only_at_stalls(served.is_stalled, monkeypatch)
    huggingface_hub.close_session()
    try:
        yield served
    finally:
        huggingface_hub.close_session()
        served.close()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub of this test alone; HF_HOME is `tmp_path / "hf"`."""
    with serving(tmp_path, monkeypatch) as served:
        yield served
