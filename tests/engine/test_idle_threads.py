"""Threads that wait for work leave the cores to those that have some."""

import ctypes
from typing import Any
from unittest.mock import Mock

import pytest

from engine.idle_threads import PowerThrottling, forbid_throttling, let_idle_threads_sleep


def test_they_sleep_unless_a_person_said_what_they_do() -> None:
    environment: dict[str, str] = {"HOME": "/home/ada"}
    let_idle_threads_sleep(environment)
    assert environment.keys() == {"HOME", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
def test_what_a_person_said_stays(name: str) -> None:
    environment = {name: "own"}
    let_idle_threads_sleep(environment)
    assert environment == {name: "own"}


class FakeKernel:
    """What is asked of Windows; like ctypes, functions take attributes."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, tuple[int, int, int], int]] = []
        self.GetCurrentProcess = Mock(return_value=-1)
        self.SetProcessInformation = Mock(side_effect=self._set)

    def _set(self, process: int, kind: int, state: Any, nbytes: int) -> int:
        held = state._obj
        self.asked.append((process, kind, (held.Version, held.ControlMask, held.StateMask), nbytes))
        return 0  # an old system refuses, and that is no error


def test_windows_is_asked_not_to_slow_the_process_down() -> None:
    """`ProcessPowerThrottling` is the fifth of its enumeration; a mask of state without the bit switches it off."""
    kernel = FakeKernel()
    forbid_throttling(kernel)
    assert kernel.asked == [(-1, 4, (1, 1, 0), 12)]
    assert ctypes.sizeof(PowerThrottling) == 12
