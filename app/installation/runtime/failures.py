"""How the making of a runtime can fail, in words a person can act on."""

from engine.errors import CoppiceError
from engine.protocol.sentences import say


class MissingWheelsError(CoppiceError):
    """A folder or an index lacks what the lock names."""


class DamagedWheelError(CoppiceError):
    """A file is not the one that the lock names."""


class UncheckableError(CoppiceError):
    """A wheel's checksum is not known, so that any file could take its place."""


class UnpackError(CoppiceError):
    """The wheels could not be unpacked into the runtime."""


class UnfitError(CoppiceError):
    """The runtime is complete, and yet it does not work here."""


class OccupiedError(CoppiceError):
    """Another Coppice of the same person is making the runtime."""


def names_text(names: list[str], most: int = 3) -> str:
    """Some names, and how many more there are: `a, b, c and 4 more`."""
    shown = ", ".join(names[:most])
    return say("{names} and {count} more", names=shown, count=len(names) - most) if len(names) > most else shown
