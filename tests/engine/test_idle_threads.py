"""Threads that wait for work leave the cores to those that have some."""

import pytest

from engine.idle_threads import let_idle_threads_sleep


def test_they_sleep_unless_a_person_said_what_they_do() -> None:
    environment: dict[str, str] = {"HOME": "/home/ada"}
    let_idle_threads_sleep(environment)
    assert environment.keys() == {"HOME", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
def test_what_a_person_said_stays(name: str) -> None:
    environment = {name: "own"}
    let_idle_threads_sleep(environment)
    assert environment == {name: "own"}
