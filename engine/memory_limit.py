"""Bounds the memory of programs of ours that read what strangers wrote: only what asks for more fails."""

import logging
import sys

_log = logging.getLogger(__name__)


def limit_own_memory(memory_bytes: int) -> None:
    """Let this process take no more: addresses on Linux, memory on Windows. macOS knows no such limit."""
    if sys.platform == "linux":
        import resource  # noqa: PLC0415  # not on Windows

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    elif sys.platform == "win32":
        limit_memory_of(None, memory_bytes)


def limit_memory_of(process_id: int | None, memory_bytes: int) -> None:
    """The same on Windows for a process that was just started, or for this one, and for those that they start.

    `process_id`: None for this process. Where Windows refuses, the process goes on without a limit. On other systems a
    program limits itself.
    """
    if sys.platform == "win32":
        try:
            _put_into_job(process_id, memory_bytes)
        except OSError as error:
            _log.warning("The memory of a program cannot be limited: %s", error)


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _LIMIT_PROCESS_MEMORY = 0x100  # JOB_OBJECT_LIMIT_PROCESS_MEMORY
    _EXTENDED_LIMITS = 9  # JobObjectExtendedLimitInformation
    _MAY_BE_LIMITED = 0x0101  # PROCESS_SET_QUOTA and PROCESS_TERMINATE, which a job asks for

    class _BasicLimits(ctypes.Structure):
        """JOBOBJECT_BASIC_LIMIT_INFORMATION of winnt.h."""

        _fields_ = (
            ("per_process_user_time", ctypes.c_int64),
            ("per_job_user_time", ctypes.c_int64),
            ("flags", wintypes.DWORD),
            ("minimum_working_set", ctypes.c_size_t),
            ("maximum_working_set", ctypes.c_size_t),
            ("active_processes", wintypes.DWORD),
            ("affinity", ctypes.c_size_t),
            ("priority_class", wintypes.DWORD),
            ("scheduling_class", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        """JOBOBJECT_EXTENDED_LIMIT_INFORMATION of winnt.h."""

        _fields_ = (
            ("basic", _BasicLimits),
            ("io_counters", ctypes.c_uint64 * 6),
            ("process_memory", ctypes.c_size_t),
            ("job_memory", ctypes.c_size_t),
            ("peak_process_memory", ctypes.c_size_t),
            ("peak_job_memory", ctypes.c_size_t),
        )

    def _kernel() -> ctypes.WinDLL:
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateJobObjectW.restype = kernel.OpenProcess.restype = wintypes.HANDLE
        kernel.CreateJobObjectW.argtypes = (ctypes.c_void_p, wintypes.LPCWSTR)
        kernel.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
        kernel.GetCurrentProcess.restype = wintypes.HANDLE
        kernel.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD)
        kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
        kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
        return kernel

    def _put_into_job(process_id: int | None, memory_bytes: int) -> None:
        """A job lasts as long as its processes do; its handle need not. Raises `OSError`."""
        kernel = _kernel()
        limits = _ExtendedLimits()
        limits.basic.flags = _LIMIT_PROCESS_MEMORY
        limits.process_memory = memory_bytes
        job = _given(kernel.CreateJobObjectW(None, None))
        try:
            _given(kernel.SetInformationJobObject(job, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)))
            if process_id is None:  # a handle that needs no closing
                _given(kernel.AssignProcessToJobObject(job, kernel.GetCurrentProcess()))
                return
            process = _given(kernel.OpenProcess(_MAY_BE_LIMITED, False, process_id))
            try:
                _given(kernel.AssignProcessToJobObject(job, process))
            finally:
                kernel.CloseHandle(process)
        finally:
            kernel.CloseHandle(job)

    def _given(result: int | None) -> int:
        """What a function of the system gave. Raises `OSError` where that is nothing."""
        if not result:
            raise ctypes.WinError(ctypes.get_last_error())
        return result
