"""The search and the facts as the dialog drives them: pages, states, nothing stale, nothing waited for."""

import gc
import itertools
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.hub.client import HubClient
from app.hub.facts import ModelFacts
from app.hub.search import SearchQuery
from app.library.hub_queries import FactsController, SearchController, SearchPhase
from app.library.local.scan import find_models
from app.system.background import Stop
from app.ui.jobs import Jobs
from engine.errors import CoppiceError
from tests.app.hub.conftest import client, connect, hub
from tests.app.hub.repositories import tiny
from tests.app.library.local.folders import write
from tests.hub import Hub, status

__all__ = ["client", "connect", "hub"]


@pytest.fixture
def controller(qtbot: QtBot, client: HubClient) -> Iterator[SearchController]:
    made = SearchController(client)
    yield made
    made.close()


@pytest.fixture
def facts(qtbot: QtBot, client: HubClient, tmp_path: Path) -> Iterator[FactsController]:
    made = FactsController(client, tmp_path / "cache")
    yield made
    made.close()


def settled(qtbot: QtBot, controller: SearchController) -> SearchPhase:
    """The phase in which the search ends."""
    qtbot.waitUntil(lambda: controller.state.phase is not SearchPhase.SEARCHING)
    return controller.state.phase


def test_a_search_goes_on_page_by_page(qtbot: QtBot, hub: Hub, controller: SearchController) -> None:
    for number in range(5):
        hub.add(f"org/tiny-{number}", tiny(), downloads=10 - number)
    added: list[tuple[int, int]] = []
    controller.rows_added.connect(lambda first, end: added.append((first, end)))
    controller.search(SearchQuery("tiny", page_rows=2))
    assert controller.state.phase.value == "searching"
    assert settled(qtbot, controller) is SearchPhase.DONE
    while controller.state.more:
        controller.more()
        controller.more()
        assert settled(qtbot, controller) is SearchPhase.DONE
    assert added == [(0, 2), (2, 4), (4, 5)]
    assert [row.repo for row in controller.results.rows] == [f"org/tiny-{number}" for number in range(5)]
    controller.more()
    assert controller.state.phase is SearchPhase.DONE, "there is no more"


def test_only_the_last_of_many_questions_is_answered(qtbot: QtBot, hub: Hub, controller: SearchController) -> None:
    for name in ("a", "ab", "abc"):
        hub.add(f"org/{name}", tiny())
    for words in ("a", "ab", "abc"):
        controller.search(SearchQuery(words))
    assert settled(qtbot, controller) is SearchPhase.DONE
    assert [row.repo for row in controller.results.rows] == ["org/abc"]


def test_offline_is_a_state_and_ends_when_the_hub_is_back(
    qtbot: QtBot, hub: Hub, controller: SearchController, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/tiny", tiny())
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    controller.search(SearchQuery())
    assert settled(qtbot, controller) is SearchPhase.OFFLINE
    assert controller.state.error is not None
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    controller.more()
    assert settled(qtbot, controller) is SearchPhase.DONE
    assert len(controller.results) == 1


def test_a_failure_can_be_tried_again_without_losing_pages(
    qtbot: QtBot, hub: Hub, controller: SearchController
) -> None:
    for number in range(4):
        hub.add(f"org/tiny-{number}", tiny())
    controller.search(SearchQuery(page_rows=2))
    settled(qtbot, controller)
    hub.fail("models", status(503))
    controller.more()
    assert settled(qtbot, controller) is SearchPhase.FAILED
    controller.more()
    assert settled(qtbot, controller) is SearchPhase.DONE
    assert len(controller.results) == 4


def test_facts_arrive_for_what_is_wanted_and_fail_with_a_reason(qtbot: QtBot, hub: Hub, facts: FactsController) -> None:
    for number in range(5):
        hub.add(f"org/tiny-{number}", tiny())
    hub.add("org/bad", {"config.json": b"["})
    arrived: list[ModelFacts] = []
    facts.arrived.connect(arrived.append)
    with qtbot.waitSignal(facts.failed) as failed:
        facts.want([("org/bad", ""), *((f"org/tiny-{number}", "") for number in range(5))])
    assert failed.args is not None
    assert failed.args[0] == "org/bad"
    qtbot.waitUntil(lambda: len(arrived) == 5)
    hub.requests.clear()
    facts.want([("org/tiny-1", ""), ("org/bad", "")])
    assert hub.requests == []
    assert set(facts.known) == {f"org/tiny-{number}" for number in range(5)}
    facts.retry()
    with qtbot.waitSignal(facts.failed):
        facts.want([("org/bad", "")])


def test_offline_only_those_under_way_fail(
    qtbot: QtBot, hub: Hub, facts: FactsController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    failures: list[str] = []
    facts.failed.connect(lambda repo, _error: failures.append(repo))
    facts.want([(f"org/tiny-{number}", "") for number in range(50)])
    qtbot.waitUntil(lambda: len(failures) == 3)
    assert hub.requests == []
    assert facts.known == {}


@pytest.fixture
def jobs(qtbot: QtBot) -> Iterator[Jobs]:
    made = Jobs(2, "test")
    yield made
    made.close()


def test_a_cancelled_job_is_not_heard_of_again(qtbot: QtBot, jobs: Jobs) -> None:
    entered, go_on = threading.Event(), threading.Event()
    heard: list[object] = []

    def work(_stop: Stop) -> str:
        entered.set()
        go_on.wait(20)
        return "late"

    job = jobs.start(work)
    job.done.connect(heard.append)
    job.failed.connect(heard.append)
    assert entered.wait(20)
    job.cancel()
    go_on.set()
    with qtbot.waitSignal(jobs.start(lambda _stop: "next").done) as done:
        pass
    qtbot.waitUntil(lambda: jobs.idle)
    assert (done.args, heard) == (["next"], [])


def test_a_job_that_nobody_waits_for_is_not_left_to_its_thread(qtbot: QtBot) -> None:
    """A thread that is the last to hold an object destroys it, maybe while Qt delivers to it: the process ended."""
    entered, go_on = threading.Event(), threading.Event()

    def work(_stop: Stop) -> None:
        entered.set()
        go_on.wait(20)

    jobs = Jobs(1, "test")
    job = weakref.ref(jobs.start(work))
    assert entered.wait(20)
    jobs.close()
    threads = jobs._threads
    del jobs
    gc.collect()
    assert job() is None
    go_on.set()
    for thread in threads:
        thread.join(20)
    qtbot.wait(1)  # what it told is told to nobody


def test_what_nobody_expected_is_a_sentence(
    qtbot: QtBot, jobs: Jobs, thread_errors: list[BaseException | None]
) -> None:
    def fail(_stop: Stop) -> None:
        raise ZeroDivisionError("by nothing")

    with qtbot.waitSignal(jobs.start(fail).failed) as failed:
        pass
    assert failed.args is not None
    assert isinstance(failed.args[0], CoppiceError)
    assert "by nothing" in failed.args[0].message
    assert [type(each) for each in thread_errors] == [ZeroDivisionError]


def test_steps_are_followed_until_they_are_no_longer_wanted(qtbot: QtBot, jobs: Jobs) -> None:
    steps: list[object] = []
    job = jobs.start(lambda _stop: iter([1, 2, 3]))
    job.stepped.connect(steps.append)
    with qtbot.waitSignal(job.done) as done:
        pass
    assert (steps, done.args) == ([1, 2, 3], [3])
    endless = jobs.start(lambda _stop: itertools.count())
    with qtbot.waitSignal(endless.stepped):
        pass
    endless.stepped.connect(steps.append)
    endless.cancel()
    qtbot.waitUntil(lambda: jobs.idle)
    assert steps == [1, 2, 3]


def test_models_on_this_computer_come_one_by_one(qtbot: QtBot, jobs: Jobs, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, tiny())
    names: list[str] = []
    job = jobs.start(lambda stop: find_models(tmp_path / "none", [tmp_path], stop))
    job.stepped.connect(lambda model: names.append(model.name))
    with qtbot.waitSignal(job.done):
        pass
    assert names == ["one", "two"]
