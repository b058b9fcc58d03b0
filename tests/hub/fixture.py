"""The `hub` fixture: a loopback hub that this process, its hub client and its children use for one test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hub.server import Hub


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
