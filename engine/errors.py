"""What can go wrong, in words a person can act on; requests that are cancelled; panics of libraries written in Rust.

pyo3 raises a panic as `PanicException`, which is no `Exception`: `except Exception` does not catch it, so that it ends
the thread. Every call into tokenizers and safetensors stands inside `no_panic`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENDING = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What asks a program or a generator to end, and is no failure."""


class CoppiceError(Exception):
    """A failure that is reported as one sentence, never as a traceback.

    `message` says what happened and to what; `hint` says what to do about it and may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


NO_PACKAGE = (
    "error: This Python has no package '{name}'. Use the one in .venv, which packaging/bootstrap.sh sets up (on "
    "Windows packaging\\bootstrap.ps1)."
)


def no_package(error: ModuleNotFoundError) -> str:
    """The line for a program in a Python without its packages, as that of the system; raises any other such error."""
    if not error.name or "." in error.name or error.name in ("app", "engine"):
        raise error
    return NO_PACKAGE.format(name=error.name)


class InputError(CoppiceError):
    """An option, a prompt or a file that the person gave cannot be used as it is."""


class ModelError(InputError):
    """A model folder is missing, incomplete, damaged, or of a kind that cannot be used here."""


class DraftError(ModelError):
    """A draft's folder or files cannot be used, whatever the target. `draft`: its name; `reason`: what is wrong."""

    def __init__(self, message: str, hint: str, draft: str, reason: str) -> None:
        super().__init__(message, hint)
        self.draft = draft
        self.reason = reason


class UnreadableError(ModelError):
    """A file of a model in use cannot be read any more, or is not what it was: no fault of who asks for an answer."""


class UnrunnableError(ModelError):
    """A model's network fails in its first passes, for what its config.json says: no fault of who asks."""


class TooLong(InputError):  # noqa: N818  # what the context cannot hold
    """A conversation has more tokens than the loaded model's context."""


class NoModel(InputError):  # noqa: N818  # a state, as people call it
    """There is nothing loaded that could answer."""


class OutOfMemory(CoppiceError):  # noqa: N818  # what people call it
    """Memory ran out; the message says during what, what was asked for, and what was free.

    `of_gpu`: it was the GPU's memory; `asked_bytes`: 0 if that is not known.
    """

    def __init__(self, message: str, hint: str = "", *, of_gpu: bool = False, asked_bytes: int = 0) -> None:
        super().__init__(message, hint)
        self.of_gpu = of_gpu
        self.asked_bytes = asked_bytes


class Cancelled(Exception):  # noqa: N818  # a request, not an error
    """Raised between two layers when the running request was cancelled; not shown to people."""


class Cancellation:
    """Which request runs, and up to which id each asker's are cancelled. `cancel` may be called from another thread.

    Request ids only grow, so there is nothing to clear, and no stop is lost or stale.
    """

    def __init__(self) -> None:
        self._running, self._asker = 0, ""
        self._through: dict[str | None, int] = {}  # by asker; None: of all of them
        self._is_unwanted: Callable[[], bool] = lambda: False

    def begin(self, request: int, is_unwanted: Callable[[], bool] = lambda: False, asker: str = "") -> None:
        """Name the request that runs from now on; `is_unwanted`: whether who asked for it has left, cheap to ask."""
        self._running, self._is_unwanted, self._asker = request, is_unwanted, asker

    def cancel(self, through: int, asker: str | None = None) -> None:
        """Cancel every request of this asker, of all where none is named, whose id is at most `through`.

        Whether it runs or is yet to come.
        """
        self._through[asker] = max(self._through.get(asker, -1), through)

    def check(self) -> None:
        """Raise `Cancelled` if the running request is cancelled. Called before every layer, so it must be cheap."""
        through = max(self._through.get(self._asker, -1), self._through.get(None, -1))
        if self._running <= through or self._is_unwanted():
            raise Cancelled


class Panic(Exception):  # noqa: N818  # what Rust calls it
    """A library written in Rust met a state that it did not expect; the message is the library's."""


@contextmanager
def no_panic() -> Iterator[None]:
    """Raise `Panic` where the code inside raises something that is neither an `Exception` nor one of `ENDING`."""
    try:
        yield
    except Exception:  # told apart from what comes below
        raise
    except ENDING:
        raise
    except BaseException as error:
        raise Panic(str(error) or type(error).__name__) from error
