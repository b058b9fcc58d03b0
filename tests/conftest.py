"""What every test stands on: no screen, no network, nobody's home, two threads; GPU tests only where there is a GPU."""

import ipaddress
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Read when Qt, torch and the hub client start, here and in every process a test starts.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"  # tiny models: threads would only wait for each other, long on a busy machine
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["PYSIDE6_OPTION_LAZY"] = "0"  # as the application has it

PERSONAL_FOLDERS = (
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "HF_HOME",
)
_HOME = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Point the person's folders into a temporary one, before anything is imported that could look for them.

    Ctrl+C and a terminal that is closed mean what they do for a person in front of one.
    """
    # What a shell starts in the background ignores Ctrl+C, or with `nohup` the end of its terminal, and so would every
    # process that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    home = Path(tempfile.mkdtemp(prefix="coppice-"))
    config.stash[_HOME] = home
    for name in PERSONAL_FOLDERS:
        os.environ[name] = str(home / name.lower())
        (home / name.lower()).mkdir(mode=0o700)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the temporary home."""
    shutil.rmtree(config.stash[_HOME], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked `gpu` where there is none; torch is imported only if such a test was collected."""
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_items and not _has_cuda():
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device, and there is none"))


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _is_local(address: Any) -> bool:
    """Tell whether a socket address stays on this machine; anything but an (address, port, ...) tuple does."""
    if not isinstance(address, tuple):
        return True
    try:
        return ipaddress.ip_address(address[0]).is_loopback
    except ValueError:
        return bool(address[0] == "localhost")


@pytest.fixture(scope="session", autouse=True)
def _no_network() -> Iterator[None]:
    """Let sockets connect to this machine only."""

    def guard(connect: Any) -> Any:
        def guarded(self: socket.socket, address: Any) -> Any:
            if not _is_local(address):
                raise AssertionError(f"A test tried to connect to {address}: tests do without the network.")
            return connect(self, address)

        return guarded

    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, guard(getattr(socket.socket, name)))
        yield
