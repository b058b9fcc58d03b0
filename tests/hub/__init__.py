"""A hub on this machine: a real HTTP server that speaks the model hub's protocol, and that fails on request.

Put `from tests.hub.fixture import hub` and `__all__ = ["hub"]` into the `conftest.py` beside your tests, then

    def test_something(hub: Hub) -> None:
        hub.add("org/tiny", {"config.json": b"{}", "model.safetensors": weights}, licence="mit")
        hub.fail("model.safetensors", drop(after=1000), times=3)
        ...  # anything that honours HF_ENDPOINT talks to it; `hub.environment` is the same for a subprocess
        assert not [each for each in hub.requests if each.server == "cdn" and each.token]

Files ending in `.safetensors` or `.gguf`, and every file above 1 MiB, are LFS files: they are redirected to a second
server on another port, as the real hub sends them to its content network. Faults are described in `tests.hub.faults`,
gated and private models in `tests.hub.repo`. `hub.requests` logs every request with its headers, on both servers.
"""

from tests.hub.faults import corrupt, drop, no_range, redirect, slow, stall, status, wrong_length
from tests.hub.repo import Repo
from tests.hub.server import Hub

__all__ = ["Hub", "Repo", "corrupt", "drop", "no_range", "redirect", "slow", "stall", "status", "wrong_length"]
