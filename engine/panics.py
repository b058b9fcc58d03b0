"""Panics of libraries written in Rust, as ordinary exceptions.

pyo3 raises a panic as `PanicException`, which is no `Exception`: `except Exception` does not catch it, so that it ends
the thread.
Every call into tokenizers and safetensors stands inside `no_panic`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What asks a program or a generator to end, and is no failure."""


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
