"""Downloads and set-ups of the engine's runtime that are cut off in every way; the next start finishes them."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from app.downloads.control import Control
from app.downloads.dependencies import Dependencies, RetryPolicy
from app.downloads.download import Download
from app.downloads.progress import Request, State
from app.installation.runtime.environment import clean_environment
from app.installation.runtime.tools import INDEX_VARIABLE
from tests.app.downloads.conftest import SmallDisk
from tests.app.downloads.models import FILES, REPO, SHARDS, contents, put_up
from tests.app.installation.conftest import make_dependencies
from tests.app.installation.packages import BLOB, TORCH, PackageIndex, tiny_wheels
from tests.campaigns.outcome import Kind, Outcome
from tests.hub import Hub, corrupt, drop, no_range, redirect, slow, stall, status, wrong_length
from tests.hub.faults import Fault
from tests.hub.fixture import serving

ROOT = Path(__file__).parents[2]
SIZE = len(FILES[SHARDS[0]])
PATIENCE_SECONDS = 60
RETRYING_SECONDS = 4.0  # of waiting between its attempts

_FAULTS: tuple[Callable[[random.Random], Fault], ...] = (
    lambda rng: drop(after=rng.choice((0, 1, rng.randrange(SIZE)))),
    lambda rng: drop(after=rng.randrange(4000)),
    lambda rng: stall(after=rng.randrange(SIZE)),
    lambda rng: corrupt(at=rng.randrange(SIZE)),
    lambda rng: wrong_length(by=rng.choice((1, 1000, -1, -1000))),
    lambda rng: replace(no_range(), drop_after=rng.randrange(SIZE)),
    lambda _: no_range(),
    lambda _: status(416),
    lambda _: status(200, body=b"<html>Sign in to this network</html>"),
    lambda rng: status(rng.choice((403, 404, 429, 500, 502, 503)), retry_after=rng.choice(("", "0", "later"))),
    lambda rng: redirect(rng.choice(("ftp://127.0.0.1/x", "file:///etc/passwd", "http://127.0.0.1:9/", "/", ""))),
)


def _at_once(control: Control, _seconds: float) -> None:
    control.check()


def download_cases(folder: Path, seeds: range) -> Iterator[Outcome]:
    """Download a tiny model through one to four faults per seed, then again from a hub that works."""
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        with pytest.MonkeyPatch.context() as patch, serving(place, patch) as hub:
            yield _of_download(hub, place / "hf", seed)


def _of_download(hub: Hub, home: Path, seed: int) -> Outcome:
    rng, repo = random.Random(seed), put_up(hub)
    for _ in range(rng.choice((1, 1, 2, 4))):
        name = rng.choice((*SHARDS, *SHARDS, "tokenizer.json", "config.json"))
        hub.fail(name, rng.choice(_FAULTS)(rng), times=rng.choice((1, 1, 2, 9)), server=rng.choice(("", "hub", "cdn")))
    dependencies = Dependencies(
        disk=SmallDisk(), retry=RetryPolicy(random=lambda: 1.0), stall_seconds=0.25, wait=_at_once
    )
    first = Download(1, Request(repo_id=REPO), dependencies)
    first.run()
    told = first.progress.message if first.progress.state is not State.DONE else ""
    if first.progress.state is not State.DONE and (not told.strip() or "Traceback" in told):
        return Outcome(seed, Kind.TRACEBACK, f"{first.progress.state.value}: {told!r}")
    hub.heal()
    # Nothing stalls any more, but the hub may be slow where the machine is busy.
    again = Download(2, Request(repo_id=REPO), replace(dependencies, stall_seconds=PATIENCE_SECONDS))
    again.run()
    found = contents(home / "hub" / f"models--{REPO.replace('/', '--')}" / "snapshots" / repo.commit)
    if again.progress.state is not State.DONE or found != FILES:
        wrong = [name for name in FILES if found.get(name) != FILES[name]]
        return Outcome(seed, Kind.LOST, f"{again.progress.state.value} {again.progress.message}, wrong: {wrong}")
    return Outcome(seed, Kind.TOLD if told else Kind.SURVIVED, told)


@contextmanager
def _package_index() -> Iterator[PackageIndex]:
    with pytest.MonkeyPatch.context() as patch:
        index = PackageIndex(tiny_wheels())
        patch.setenv(INDEX_VARIABLE, index.address)
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            patch.delenv(name, raising=False)
            patch.delenv(name.upper(), raising=False)
        yield index
        index.close()


def setup_cases(folder: Path, seeds: range) -> Iterator[Outcome]:
    """Set up a tiny runtime in a process that is ended, or whose network fails, once per seed; then once more."""
    for seed in seeds:
        with _package_index() as index:
            yield _of_setup(index, folder / f"Büro {seed}", seed)


_ENDINGS = ("kill", "terminate", "interrupt", "network")


def _of_setup(index: PackageIndex, folder: Path, seed: int) -> Outcome:
    rng, dependencies = random.Random(seed), make_dependencies(folder)
    command = [sys.executable, "-m", "tests.app.installation.driver", str(folder)]
    ending = _ENDINGS[seed % len(_ENDINGS)]
    said = _cut_off(index, command, ending, rng)
    here = dependencies.place.installed()
    if here is not None:
        whole = _works(here.python)
        return Outcome(seed, Kind.SURVIVED if whole else Kind.LOST, f"{ending}: a runtime is in use")
    index.heal()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    here = dependencies.place.installed()
    if done.returncode or here is None or not _works(here.python):
        return Outcome(seed, Kind.LOST, f"{ending}: not finished by the next start: {done.stdout} {done.stderr[-300:]}")
    left = sorted(path.name for path in dependencies.place.folder.iterdir())
    if left != sorted(("active.json", here.folder.name, "lock")):
        return Outcome(seed, Kind.OUTSIDE, f"{ending}: {left} are left")
    if "Traceback" in done.stderr or (ending == "network" and "Traceback" in said):
        return Outcome(seed, Kind.TRACEBACK, (done.stderr or said)[-500:])
    return Outcome(seed, Kind.TOLD if "failed" in said else Kind.SURVIVED, said[:200])


def _cut_off(index: PackageIndex, command: list[str], ending: str, rng: random.Random) -> str:
    """Begin a set-up that does not come to its end; returns what it said."""
    if ending == "network":
        fault = rng.choice((drop(after=rng.randrange(100_000)), corrupt(at=rng.randrange(10_000)), status(503)))
        index.fail(rng.choice((TORCH, BLOB)), fault, times=99)
    else:
        index.fail(BLOB, slow(60_000, 0.01))
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        return process.communicate(timeout=RETRYING_SECONDS if ending == "network" else rng.uniform(0.2, 1.0))[0]
    except subprocess.TimeoutExpired:
        signals = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "interrupt": signal.SIGINT}
        os.killpg(process.pid, signals.get(ending, signal.SIGKILL))
        return process.communicate()[0]


def _works(python: Path) -> bool:
    told = subprocess.run(
        [python, "-c", "import torch; print(torch.answer())"],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment({}),
    )
    return told.stdout.strip() == "300000 bytes"
