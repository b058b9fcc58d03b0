"""What is said of texts that were read and are kept on disk, so that a conversation goes on without reading it anew."""

from dataclasses import dataclass

SERVED = "served"  # the conversation of all that clients of the server ask


@dataclass(frozen=True, slots=True)
class KeepTexts:
    """Keep what conversations have read in files below `cache_dir`, within `most_bytes`; a new engine is told anew.

    `most_bytes`: `engine.kept_files.AUTOMATIC` for a part of what is free, 0 to keep nothing; what is there stays then.
    `cache_dir`: empty for the platform's own cache folder.
    """

    most_bytes: int
    cache_dir: str = ""


@dataclass(frozen=True, slots=True)
class ForgetTexts:
    """Keep nothing of these conversations, of all where none is named: neither in RAM nor what is being written.

    Whoever sends it removes the files, also where no engine hears it: `engine.kept_files.forget`.
    """

    conversations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """Something was kept on disk, or could not be: what all of it takes now. `note`: a sentence about a failure.

    Of no request: none has its `id`.
    """

    nbytes: int
    note: str = ""
    id: int = -1
