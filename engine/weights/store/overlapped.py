"""Reads files on Windows past its cache, several parts at once: what `O_DIRECT` and a deep queue are elsewhere.

See "CreateFileW", "Synchronous and Asynchronous I/O" and "File Buffering" in Microsoft's documentation of Win32: such a
file is read in whole sectors, into memory that begins on one, and its reads go on while the caller starts the next.
"""

import ctypes
import errno
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.files import FileState, file_state

PART_BYTES = 4 << 20  # of one request
REQUESTS = 8  # under way at once, of one caller

# Of winnt.h, fileapi.h and winbase.h.
GENERIC_READ, SHARE_ALL, OPEN_EXISTING = 0x80000000, 0x7, 3
FLAG_OVERLAPPED, FLAG_NO_BUFFERING = 0x40000000, 0x20000000
INVALID_HANDLE = ctypes.c_void_p(-1).value
# Of winerror.h.
ERROR_HANDLE_EOF, ERROR_INVALID_PARAMETER, ERROR_IO_PENDING = 38, 87, 997


class Overlapped(ctypes.Structure):
    """`OVERLAPPED` of minwinbase.h."""

    _fields_ = (
        ("Internal", ctypes.c_size_t),
        ("InternalHigh", ctypes.c_size_t),
        ("Offset", ctypes.c_uint32),
        ("OffsetHigh", ctypes.c_uint32),
        ("hEvent", ctypes.c_void_p),
    )


@dataclass(slots=True)
class Request:
    """A read that was started; `is_at_end`: it found nothing to read, and is over."""

    nbytes: int
    state: Overlapped
    is_at_end: bool = False


class OverlappedFile:
    """A file open for reads past the cache. Several threads may read at once."""

    is_direct = True

    def __init__(self, path: Path, kernel: Any, last_error: Callable[[], int]) -> None:
        """`kernel`: kernel32.dll, whose functions return 0 where they fail, and `last_error` tells the thread why.

        Raises `OSError` if the file cannot be opened so.
        """
        self._path, self._kernel, self._last_error = path, kernel, last_error
        flags = FLAG_OVERLAPPED | FLAG_NO_BUFFERING
        self._handle = kernel.CreateFileW(str(path), GENERIC_READ, SHARE_ALL, None, OPEN_EXISTING, flags, None)
        if self._handle in (None, 0, INVALID_HANDLE):
            raise self._failure(last_error())

    def read(self, target: memoryview, offset: int) -> int:
        """Fill `target` from `offset` on, all three in whole sectors; returns how much there was, less at the end only.

        Raises `OSError` if it cannot be read. Nothing is written to `target` after that.
        """
        if not target:
            return 0
        address = ctypes.addressof(ctypes.c_char.from_buffer(target))
        parts, under_way, done = parts_of(len(target)), deque[Request](), 0
        try:
            while True:
                while len(under_way) < REQUESTS and (part := next(parts, None)):
                    under_way.append(self._start(address + part.start, part.stop - part.start, offset + part.start))
                if not under_way:
                    return done
                request = under_way.popleft()
                got = self._finish(request)
                done += got
                if got < request.nbytes:
                    return done  # what lies behind would leave a gap
        finally:
            for request in under_way:
                self._abandon(request)

    def close(self) -> None:
        """Close the file, which nobody reads any more."""
        self._kernel.CloseHandle(self._handle)

    def state(self) -> FileState | None:
        """Of the file at its path: handles of Windows are no descriptors."""
        return file_state(self._path)

    def drop_from_cache(self, offset: int, nbytes: int) -> None:
        """Nothing of it is there."""

    def _start(self, address: int, nbytes: int, offset: int) -> Request:
        event = self._kernel.CreateEventW(None, True, False, None)
        if not event:
            raise self._failure(self._last_error())
        state = Overlapped(Offset=offset & 0xFFFFFFFF, OffsetHigh=offset >> 32, hEvent=event)
        if self._kernel.ReadFile(self._handle, address, nbytes, None, ctypes.byref(state)):
            return Request(nbytes, state)
        error = self._last_error()
        if error == ERROR_IO_PENDING:
            return Request(nbytes, state)
        self._kernel.CloseHandle(event)
        if error == ERROR_HANDLE_EOF:
            return Request(nbytes, state, is_at_end=True)
        raise self._failure(error)

    def _finish(self, request: Request) -> int:
        """Wait for a read; returns its bytes."""
        if request.is_at_end:
            return 0
        got = ctypes.c_uint32()
        try:
            if self._kernel.GetOverlappedResult(self._handle, ctypes.byref(request.state), ctypes.byref(got), True):
                return got.value
            error = self._last_error()
        finally:
            self._kernel.CloseHandle(request.state.hEvent)
        if error == ERROR_HANDLE_EOF:
            return 0
        raise self._failure(error)

    def _abandon(self, request: Request) -> None:
        """End a read that nobody wants any more: it must not write into memory that is somebody else's by then."""
        if not request.is_at_end:
            self._kernel.CancelIoEx(self._handle, ctypes.byref(request.state))
            try:
                self._finish(request)
            except OSError:  # that it was cancelled, or failed like the one before
                return

    def _failure(self, error: int) -> OSError:
        number = errno.EINVAL if error == ERROR_INVALID_PARAMETER else errno.EIO
        if sys.platform == "win32":
            return OSError(number, ctypes.FormatError(error), str(self._path), error)
        return OSError(number, "Windows error", str(self._path))


def parts_of(nbytes: int) -> Iterator[slice]:
    """Bytes [0, nbytes) in requests of `PART_BYTES`, the last one shorter."""
    return (slice(begin, min(begin + PART_BYTES, nbytes)) for begin in range(0, nbytes, PART_BYTES))


def open_overlapped(path: Path) -> OverlappedFile | None:
    """The file, opened so; None where the system is no Windows. Raises `OSError` if it cannot be opened so."""
    if sys.platform == "win32":
        return OverlappedFile(path, _kernel32(), ctypes.get_last_error)
    return None


if sys.platform == "win32":

    def _kernel32() -> Any:
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        number, pointer = ctypes.c_uint32, ctypes.c_void_p
        kernel.CreateFileW.argtypes = (ctypes.c_wchar_p, number, number, pointer, number, number, pointer)
        kernel.CreateFileW.restype = pointer
        kernel.CreateEventW.argtypes = (pointer, ctypes.c_int, ctypes.c_int, ctypes.c_wchar_p)
        kernel.CreateEventW.restype = pointer
        kernel.ReadFile.argtypes = (pointer, pointer, number, pointer, pointer)
        kernel.GetOverlappedResult.argtypes = (pointer, pointer, pointer, ctypes.c_int)
        kernel.CancelIoEx.argtypes = (pointer, pointer)
        kernel.CloseHandle.argtypes = (pointer,)
        return kernel
