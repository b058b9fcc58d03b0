"""The programs that an installation runs: uv, the new Python, and the proof that the engine works with it."""

import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from app.downloads.control import Control
from app.downloads.dependencies import Dependencies
from app.downloads.disk import Check
from app.installation.runtime.environment import clean_environment, engine_environment
from app.installation.runtime.place import RuntimePlace
from app.installation.runtime.progress import UnfitError
from app.system import json_text as json
from app.system.bundle import RuntimeParts, python_of
from app.system.paths import program_on_path
from engine.errors import InputError
from engine.files import retried
from engine.protocol.libraries import library_failure
from engine.protocol.sentences import say

_log = logging.getLogger(__name__)

INDEX_VARIABLE = "COPPICE_INDEX"
"""The address of the package index to use instead of the one that uv is set to."""

_UV_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Tools:
    """`uv` may be None. `home` is a Python that can be copied; without one, `base` makes a virtual environment."""

    uv: Path | None = None
    home: Path | None = None
    base: Path | None = None

    def make_python(self, folder: Path, check: Check) -> Path:
        """Put a Python into `folder`, which is not there yet, and return its program; raises `OSError`."""
        if self.home is not None:
            _copy(self.home, folder, check)
            return python_of(folder)
        base = self.base or Path(sys.executable)
        command: list[str | Path] = [base, "-I", "-m", "venv", "--without-pip", folder]
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            env=clean_environment(os.environ),
            timeout=120,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python3"

    def install_command(self, python: Path, wheels: Sequence[str]) -> list[str | Path]:
        """Unpacks wheels, given as paths below the working folder, into that Python; asks nobody about anything."""
        if self.uv is not None:
            options = ["--offline", "--no-index", "--no-deps", "--no-config", "--break-system-packages"]
            return [self.uv, "pip", "install", "--python", python, *options, "--cache-dir", "uv-cache", *wheels]
        base = self.base or Path(sys.executable)
        options = ["--isolated", "--no-index", "--no-deps", "--no-cache-dir", "--disable-pip-version-check"]
        return [base, "-m", "pip", "--python", python, "install", *options, "--no-compile", "--no-input", *wheels]

    def install_environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """What that command should see: the wheels are chosen already, and no settings of pip's or uv's may object."""
        clean = {name: value for name, value in clean_environment(variables).items() if not name.startswith("UV_")}
        return clean | {"PIP_CONFIG_FILE": os.devnull}

    def default_index(self) -> str:
        """The index that uv would ask, as its own settings and the person's mirrors have it."""
        named = os.environ.get(INDEX_VARIABLE)
        if named:
            return named
        if self.uv is None:
            message = say("Nobody says which package index to ask.")
            raise InputError(message, say("Set {name}, or use a wheel folder.", name=INDEX_VARIABLE))
        # Of an empty input: the name of an empty file is another one on Windows. uv wants to know a Python, and where a
        # computer has none, it would download one from elsewhere only to print this.
        python = python_of(self.home) if self.home is not None else self.base or Path(sys.executable)
        command: list[str | Path] = [self.uv, "pip", "compile", "--quiet", "--no-deps", "--emit-index-url"]
        command += ["--no-python-downloads", "--python", python, "-"]
        lines = [line.split() for line in _printed(command).splitlines()]
        index = next((words[1] for words in lines if len(words) == 2 and words[0] == "--index-url"), "")
        if not index:
            raise InputError(
                say("uv does not say which package index to ask."), say("Set {name}, or check uv.", name=INDEX_VARIABLE)
            )
        return index


def _printed(command: Sequence[str | Path]) -> str:
    """What a short command says on standard output; nothing where it cannot be run, or does not end."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=clean_environment(os.environ),
            timeout=_UV_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _log.warning("%s cannot be asked: %s", command[0], error)
        return ""
    if done.returncode:
        _log.warning("%s ended with %d: %s", command[0], done.returncode, done.stderr.strip())
    return done.stdout


def tools_of(parts: RuntimeParts) -> Tools:
    """What a bundle carries; where it carries no Python, as in a folder made by hand, that of this process serves."""
    uv = parts.uv if parts.uv.is_file() else program_on_path("uv")
    return Tools(uv, parts.python_home if parts.python.is_file() else None)


class _NotCopiedError(Exception):
    """Carries an error past `copytree`, which would go on, as on a full disk, and raise all in one without a number."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.error = error


def _copy(home: Path, folder: Path, check: Check) -> None:
    def copy(source: str, target: str) -> str:
        check()
        try:
            return str(shutil.copy2(source, target))
        except OSError as error:
            raise _NotCopiedError(error) from error

    try:
        shutil.copytree(home, folder, symlinks=True, copy_function=copy)
    except _NotCopiedError as stopped:
        raise stopped.error from None
    for externally in folder.rglob("EXTERNALLY-MANAGED"):
        externally.unlink()


_LOOK_SECONDS = 0.1
_TAIL_BYTES = 1 << 16
_MOST_LETTERS = 300
_LARGEST_CODE = 0xFFFF  # what is above are the faults of Windows, which are looked up in hexadecimal digits


@dataclass(frozen=True, slots=True)
class Ending:
    """`code` 0 is success; `printed` the end of what it said, `output` the same of its standard output alone."""

    code: int
    printed: str
    output: str

    def reason(self, lines: Sequence[str]) -> str:
        """Why it failed, as a part of a sentence: the first of these lines, else its code, as the system writes it."""
        said = lines[0].strip().rstrip(".") if lines else ""
        if said:
            return said if len(said) <= _MOST_LETTERS else f"{said[:_MOST_LETTERS].rstrip()}…"
        return say("exit code {code}", code=f"0x{self.code:08X}" if self.code > _LARGEST_CODE else str(self.code))


def run_child(
    arguments: Sequence[str | Path],
    folder: Path,
    environment: Mapping[str, str],
    control: Control,
    look: Callable[[], None] = lambda: None,
    seconds: float = 3600.0,
) -> Ending:
    """Start it in `folder` and wait; `look` is called now and then, and what it raises ends the program.

    Raises `Stopped` when somebody wants that, `TimeoutError` after so many seconds, and `OSError` when it cannot start.
    """
    output, errors = folder / "child.out", folder / "child.err"
    with output.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(
            [str(each) for each in arguments],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        deadline = time.monotonic() + seconds
        try:
            while process.poll() is None:
                control.wait(_LOOK_SECONDS)
                look()
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{arguments[0]} did not end within {seconds:.0f} s")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    printed = _tail(errors)
    said = _tail(output)
    for path in (output, errors):
        retried(partial(path.unlink, missing_ok=True))
    return Ending(process.returncode, printed, said)


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace").strip()


_IMPORTS = "import json, torch, transformers; print(json.dumps([torch.__version__, torch.cuda.is_available()]))"
_PROMPT = "Hello!"
_TOKENS = 4
_ANSWER_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Verification:
    """`arguments` make the engine answer; what it prints on standard output is a JSON object with a `text`."""

    imports: str = _IMPORTS
    arguments: tuple[str, ...] = ("-m", "engine", "generate", "--prompt", _PROMPT, "--json")
    limits: tuple[str, ...] = ("--max-new-tokens", str(_TOKENS), "--temperature", "0")

    def run(self, python: Path, folder: Path, control: Control) -> tuple[str, bool]:
        """The version of torch, and whether it sees a card to compute on.

        Raises `UnfitError` with the reason, `Stopped`, and `OSError`.
        """
        environment = engine_environment(os.environ) | {"HF_HUB_OFFLINE": "1"}
        told = self._run([python, "-c", self.imports], folder, environment, control)
        try:
            version, sees_card = json.loads(told)
        except (ValueError, TypeError) as error:
            raise UnfitError(say("The new engine does not tell its version."), say("Install it again.")) from error
        answer = self._run([python, *self.arguments, *self.limits], folder, environment, control)
        if not _text(answer).strip():
            raise UnfitError(say("The new engine answered nothing."), say("Install it again."))
        return str(version), sees_card is True

    def _run(self, arguments: list[str | Path], folder: Path, environment: dict[str, str], control: Control) -> str:
        try:
            ending = run_child(arguments, folder, environment, control, seconds=_ANSWER_SECONDS)
        except TimeoutError as error:
            raise UnfitError(
                say("The new engine did not answer in time."), say("Try again when less is going on.")
            ) from error
        if ending.code:
            raise _unfit(ending)
        return ending.output


def _text(answer: str) -> str:
    try:
        return str(json.loads(answer)["text"])
    except (ValueError, KeyError, TypeError):
        return ""


def _unfit(ending: Ending) -> UnfitError:
    if failure := library_failure(ending.printed):
        return UnfitError(failure.message, failure.hint)
    reason = ending.reason(ending.printed.splitlines()[-1:])
    message = say("The new engine does not work on this computer: {reason}.", reason=reason)
    return UnfitError(message, say("Install it again, or another build."))


@dataclass(frozen=True, slots=True)
class InstallDependencies:
    """The tools, and where things lie; tests replace the parts. `wheels` keeps what has arrived."""

    place: RuntimePlace
    wheels: Path
    tools: Tools
    downloads: Dependencies = field(default_factory=Dependencies)
    verification: Verification = field(default_factory=Verification)
