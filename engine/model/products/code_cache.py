"""Compiled code in files, without which all computes as well: what cannot be read or written is compiled anew."""

import logging
from contextlib import suppress
from typing import Any

from numba.core.caching import FunctionCache

_log = logging.getLogger(__name__)


class CodeCache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """numba's own raises whatever a full disk, or a file that was cut off, makes of it: in the midst of a product."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What is kept for arguments of these types; None if it is not there, or cannot be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001  # a damaged pickle raises anything
            _log.warning("Compiled code is made anew: %s", error)
            with suppress(OSError):
                self.flush()  # its index may be what is damaged
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it, if that is possible."""
        try:
            super().save_overload(sig, data)
        except Exception as error:  # noqa: BLE001  # the same for an index that is read before it is written
            _log.warning("Compiled code is not kept: %s", error)
