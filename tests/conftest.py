"""What every test stands on: no screen, no network, nobody's home, two threads; GPU tests only where there is a GPU."""

import gc
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from tests.campaigns.extent import choose
from tests.guard.sitecustomize import is_local  # from now on this process is guarded like its children

GUARD = Path(__file__).parent / "guard"

# Read when Qt, torch and the hub client start, here and in every process a test starts.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
if os.name == "nt":  # without a screen Qt looks for fonts in a folder of its own there, which it does not ship
    os.environ.setdefault("QT_QPA_FONTDIR", str(Path(os.environ["SYSTEMROOT"], "Fonts")))
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_SYMLINKS_WARNING"] = "1"  # its client warns of that, on Windows
os.environ["OMP_NUM_THREADS"] = "1"  # tiny models: threads would only wait for each other, long on a busy machine
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["PYSIDE6_OPTION_LAZY"] = "0"  # as the application has it
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(GUARD), os.environ.get("PYTHONPATH")]))
# pytest keeps the files of failed tests where it always does.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())

settings.register_profile("suite", max_examples=choose(12, 200), deadline=None)
settings.load_profile("suite")

PERSONAL_FOLDERS = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "HF_HOME")
TEMPORARY_FOLDERS = ("XDG_RUNTIME_DIR", "TMPDIR")
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
    # Sockets lie in TMPDIR, and the system limits their paths to about 100 characters.
    home = Path(tempfile.mkdtemp(prefix="coppice-", dir=os.environ["PYTEST_DEBUG_TEMPROOT"]))
    config.stash[_HOME] = home
    for name in (*PERSONAL_FOLDERS, *TEMPORARY_FOLDERS):
        os.environ[name] = str(home / name.lower())
        (home / name.lower()).mkdir(mode=0o700)
    tempfile.tempdir = None  # it has been read already


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the temporary home."""
    tempfile.tempdir = None
    shutil.rmtree(config.stash[_HOME], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked `gpu` where there is none; torch is imported only if such a test was collected."""
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_items and not _has_cuda():
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device, and there is none"))


# Tests that share an engine's process, which takes 7 s of a processor to start, simulated trees, or libraries whose
# imports take seconds (bitsandbytes, compressed-tensors): those of one name run one after the other in one of pytest's
# processes. All others are shared out file by file.
TOGETHER = {
    "tests/app/session/": "session",
    "tests/engine/test_process": "process",
    "tests/engine/speculation/test_auto": "simulation",
    "tests/engine/model/formats/": "formats",
    "tests/engine/weights/test_codecs_bitsandbytes": "formats",
}


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # untyped
    """As `--dist loadfile`, but for what belongs together."""

    def _split_scope(self, nodeid: str) -> str:
        return next((TOGETHER[each] for each in TOGETHER if nodeid.startswith(each)), nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    """Take the place of `--dist loadfile`."""
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="module", autouse=True)
def nothing_old_is_collected() -> None:
    """Leave all that is alive when a test file begins out of every garbage collection from now on.

    These are more than a million objects, those of torch and transformers alone: a full collection takes 0.3 s with
    them, and both the engine and the application's tests ask for many.
    """
    gc.collect()
    gc.freeze()


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture(scope="session", autouse=True)
def _no_network() -> Iterator[None]:
    """Let sockets connect to this machine only; a name is refused before it is looked up, earlier than by the hook."""

    def guard(connect: Any) -> Any:
        def guarded(self: socket.socket, address: Any) -> Any:
            if not is_local(address):
                raise AssertionError(f"A test tried to connect to {address}: tests do without the network.")
            return connect(self, address)

        return guarded

    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, guard(getattr(socket.socket, name)))
        yield
