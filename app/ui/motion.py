"""Whether anything in the window may move: what Preferences say, and the system where it can be asked."""

import sys

from PySide6.QtWidgets import QApplication, QStyle

_CLIENT_AREA_ANIMATION = 0x1042  # SPI_GETCLIENTAREAANIMATION of SystemParametersInfoW


def may_move(reduce_motion: bool) -> bool:
    """Whether to move what could be changed at once. `reduce_motion` is what a person has set."""
    return not reduce_motion and not _system_is_still()


def _system_is_still() -> bool:
    """Windows can be asked; elsewhere a style says so that has no animations. Qt 6.11 tells of no other system."""
    if sys.platform == "win32":
        import ctypes  # noqa: PLC0415  # the first paint elsewhere needs not wait for it

        is_moving = ctypes.c_int(1)
        ctypes.windll.user32.SystemParametersInfoW(_CLIENT_AREA_ANIMATION, 0, ctypes.byref(is_moving), 0)
        return not is_moving.value
    return QApplication.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) == 0
