"""What is said when a file could not be written."""

import errno
from pathlib import Path

from app.i18n.sentences import reason_text
from app.i18n.translation import tr


def writing_failed(path: Path, error: OSError) -> str:
    """What happened to which file, and what to do."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            words = tr("{name} could not be written: the disk is full. Make room, or choose another place.")
        case errno.ENOENT | errno.ENOTDIR:
            words = tr("{name} could not be written: its folder is not there any more. Choose another place.")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            words = tr("{name} could not be written: nothing may be written there. Choose another place.")
        case _:
            words = tr("{name} could not be written: {reason}. Choose another place.")
    return words.format(name=path.name, reason=reason_text(error))
