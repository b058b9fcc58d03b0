"""Compiled code in files, without which all computes as well: what cannot be read or written is compiled anew.

numba's own keeps what a function was compiled for in one index beside numbered files. Of two processes that compile the
same function for other types at a time, one would then be handed the other's code. Here each has a file of its own.
"""

import hashlib
import logging
import os
import pickle
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

from engine.files import is_own

_log = logging.getLogger(__name__)


class CodeCache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """numba's own raises whatever a full disk, or a file that was cut off, makes of it: in the midst of a product."""

    def __init__(self, function: Any) -> None:
        """Raises `RuntimeError` or `OSError` where numba finds no place to write."""
        super().__init__(function)
        self._cache_file = CodeFiles(self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What is kept for arguments of these types; None if it is not there, or cannot be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001  # a damaged pickle raises anything
            _log.warning("Compiled code is made anew: %s", error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it, if that is possible."""
        try:
            super().save_overload(sig, data)
        except Exception as error:  # noqa: BLE001  # whatever a disk or a pickle raises
            _log.warning("Compiled code is not kept: %s", error)


class CodeFiles(IndexDataCacheFile):  # type: ignore[misc]  # numba has no types
    """A file for each key of a function: what it was compiled for, and by which numba from which source."""

    def load(self, key: Any) -> Any:
        """What is kept for a key; None if nothing is, or another user's. Raises anything for a file that is damaged."""
        try:
            with self._path(key).open("rb") as file:
                content = file.read() if is_own(os.fstat(file.fileno())) else b""
        except FileNotFoundError:
            return None
        if not content:
            return None
        origin, data = pickle.loads(content)  # noqa: S301  # our own folder, as numba reads it
        return pickle.loads(data) if origin == self._origin(key) else None  # noqa: S301

    def save(self, key: Any, data: Any) -> None:
        """Put it in the place of whatever is kept for the key, as a whole."""
        content = self._dump((self._origin(key), self._dump(data)))
        with self._open_for_write(str(self._path(key))) as file:
            file.write(content)

    def _origin(self, key: Any) -> Any:
        return self._version, self._source_stamp, key

    def _path(self, key: Any) -> Path:
        digest = hashlib.sha256(str(key).encode()).hexdigest()[:16]
        return Path(self._cache_path) / f"{self._index_name.removesuffix('.nbi')}.{digest}.nbc"
